#!/usr/bin/env python3
"""Whole training steps on one GPU, Paceline beside PyTorch: fresh processes that take turns.

usage: bench/resnet50.py --out FOLDER [--set main|precision] [--only TEXT] [--minutes M] [--quick] [--paceline COMMAND]

Ours is `paceline train bench/gpu_step.toml`, data kept on the device; speeds are read from its metrics.jsonl, and it is ended when there are
enough. PyTorch's is bench/peers/resnet50.py. Every process warms up (compiling and capturing not counted), then runs for at least
--seconds; its figure is the median of its windows. A round is one process of each contender, the next round goes backwards.
FOLDER/resnet50.json has every process; what is there already is not measured again, what failed is tried again. FOLDER/resnet50.md is the table.
"""

import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MODES = {"eager": "eager", "compile": "compile", "graphs": "reduce-overhead"}  # of PyTorch; "paceline" is ours
SWEEP = (16, 32, 64, 128, 256, 512)


def cell(model, precision, batch, peers=("eager",), rounds=1):
    return {"name": f"{model} {precision} {batch}", "model": model, "precision": precision, "batch": batch,
            "contenders": ["paceline", *peers], "rounds": rounds}


SETS = {
    # The most important first: a run that is cut short has them.
    "main": [cell("resnet50", "f16", 256, ("eager", "compile"), 2), cell("resnet50", "f16", 64, ("eager", "compile", "graphs"), 2),
             cell("resnet50", "f32", 256, ("eager", "compile")), cell("resnet50", "bf16", 256), cell("resnet101", "f16", 256),
             cell("vgg16", "f16", 256), cell("mobilenet_v1", "f16", 256)],
    # Lu, figure 3.4 and table 3.2; Jia's 1.26 times. Ours alone.
    "precision": [cell("resnet50", precision, batch, ()) for batch in SWEEP for precision in ("f32", "f16", "bf16")],
}


class Card:
    """SM clock and power while a process runs, from nvidia-smi where there is one."""

    def __enter__(self):
        try:
            self.process = subprocess.Popen(["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "-lms", "250"],
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except FileNotFoundError:
            self.process = None
        return self

    def __exit__(self, *_):
        self.figures = {}
        if self.process is None:
            return
        self.process.terminate()
        samples = []
        for line in self.process.communicate()[0].splitlines():
            try:
                samples.append(tuple(float(number) for number in line.split(",")))
            except ValueError:
                continue  # cut off, or "[N/A]"
        if not samples:
            return
        # Of the time under load: starting and compiling take little power.
        most = max(watts for _, watts in samples)
        loaded = [sample for sample in samples if sample[1] > 0.8 * most]
        self.figures = {"sm_mhz": statistics.median(clock for clock, _ in loaded), "watts": statistics.median(watts for _, watts in loaded)}


def tail_of(text, lines=6):
    return "\n".join(text.strip().splitlines()[-lines:])


def window_steps(options, work):
    return max(1, -(-options.window_images // work["batch"]))


def train_lines(metrics):
    """The lines of training windows so far; the last may be torn."""
    lines = []
    for text in metrics.read_text().split("\n")[:-1] if metrics.exists() else []:
        line = json.loads(text)
        if line["kind"] == "train":
            lines.append(line)
    return lines


def steady_windows(lines, batch, warmup_s):
    """Images per second of every window after the warm-up, the first window never counted."""
    return [(after["step"] - before["step"]) * batch / (after["seconds"] - before["seconds"])
            for before, after in zip(lines, lines[1:]) if before["seconds"] - lines[0]["seconds"] >= warmup_s]


def measure_paceline(options, work, _):
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        keys = [f"model.name={work['model']}", f"batch.global={work['batch']}", f"data.image_size={options.image}",
                f"data.train_samples={4 * work['batch']}", f"train.precision={work['precision']}", f"train.device={options.device}",
                f"train.log_every_steps={window_steps(options, work)}", *options.key]
        if options.device == "cuda":
            keys.append("data.resident=always")
        arguments = [word for key in keys for word in ("--set", key)]
        with (pathlib.Path(folder) / "stderr").open("w+") as errors:
            begun = time.monotonic()
            process = subprocess.Popen([*shlex.split(options.paceline), "train", HERE / "gpu_step.toml", *arguments, "--out", run, "--quiet"],
                                       stdout=subprocess.DEVNULL, stderr=errors)
            try:
                while True:
                    ended = process.poll() is not None
                    lines = train_lines(run / "metrics.jsonl")
                    speeds = steady_windows(lines, work["batch"], options.warmup_seconds)
                    enough = len(speeds) >= 3 and lines[-1]["seconds"] - lines[-1 - len(speeds)]["seconds"] >= options.seconds
                    if enough:
                        return {"images_per_second": speeds, "loss": lines[-1]["loss"], "whole_s": time.monotonic() - begun}
                    if ended:
                        errors.seek(0)
                        raise RuntimeError(f"ended with {process.returncode}: {tail_of(errors.read())}")
                    if time.monotonic() - begun > options.process_seconds:
                        raise TimeoutError(f"no result after {options.process_seconds:g} s")
                    time.sleep(0.1)
            finally:
                process.kill()  # no evaluation, no checkpoint: only its steps were wanted
                process.wait()


def measure_peer(options, work, contender):
    command = [options.python, HERE / "peers/resnet50.py", "--model", work["model"], "--batch", work["batch"], "--precision", work["precision"],
               "--mode", MODES[contender], "--image", options.image, "--device", options.device, "--window-steps", window_steps(options, work),
               "--warmup-seconds", options.warmup_seconds, "--seconds", options.seconds]
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=options.process_seconds)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"no result after {options.process_seconds:g} s") from None
    if done.returncode != 0:
        raise RuntimeError(f"ended with {done.returncode}: {tail_of(done.stderr)}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(options, work, contender):
    with Card() as card:
        result = (measure_paceline if contender == "paceline" else measure_peer)(options, work, contender)
    return {**result, **card.figures, "median": statistics.median(result["images_per_second"])}


def turns(works):
    """(cell, round, contender): the next round of a cell goes backwards."""
    for work in works:
        for number in range(work["rounds"]):
            for contender in work["contenders"][::1 if number % 2 == 0 else -1]:
                yield work, number, contender


def table(works, runs):
    lines = ["| model, precision, batch | contender | images/s | spread | times PyTorch eager | MHz | W | processes |", "| --- " * 8 + "|"]
    for work in works:
        medians = {}
        for contender in work["contenders"]:
            mine = [run for run in runs if (run["cell"], run["contender"]) == (work["name"], contender)]
            good = [run for run in mine if "median" in run]
            if not good:
                if mine:
                    lines.append(f"| {work['name']} | {contender} | failed: {mine[-1]['error'].splitlines()[-1]} | | | | | |")
                continue
            medians[contender] = statistics.median(run["median"] for run in good)
        for contender, median in medians.items():
            good = [run for run in runs if (run["cell"], run["contender"]) == (work["name"], contender) and "median" in run]
            windows = [speed for run in good for speed in run["images_per_second"]]
            ratio = f"{median / medians['eager']:.2f}" if "eager" in medians else ""
            mhz, watts = (", ".join(f"{run[key]:.0f}" for run in good if key in run) for key in ("sm_mhz", "watts"))
            lines.append(f"| {work['name']} | {contender} | {median:,.0f} | {min(windows):,.0f} to {max(windows):,.0f} | {ratio} | {mhz} | {watts} | {len(good)} |")
    return "\n".join(lines) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--set", choices=SETS, default="main")
    parser.add_argument("--only", default="", help="cells whose name contains this")
    parser.add_argument("--without", default="", help="a contender to leave out")
    parser.add_argument("--rounds", type=int, help="of every cell")
    parser.add_argument("--minutes", type=float, default=9, help="begin nothing after this")
    parser.add_argument("--process-seconds", type=float, default=150, help="the most for one process")
    parser.add_argument("--warmup-seconds", type=float, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of steady state, at least")
    parser.add_argument("--window-images", type=int, default=5120)
    parser.add_argument("--image", type=int, default=224)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--key", action="append", default=[], help="of our recipe: train.graph=never")
    parser.add_argument("--paceline", default=str(HERE.parent / "build/cuda/bin/paceline"), help="how it is started")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--quick", action="store_true", help="one round, a second of warm-up, two of steady state")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.warmup_seconds, options.seconds = 1, 1, 2
    return options


def main():
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / "resnet50.json"
    runs = json.loads(kept.read_text()) if kept.exists() else []
    works = [dict(work, rounds=options.rounds or work["rounds"]) for work in SETS[options.set] if options.only in work["name"]]
    for work in works:
        work["contenders"] = [contender for contender in work["contenders"] if contender != options.without]
    begun = time.monotonic()
    for work, number, contender in turns(works):
        this = {"cell": work["name"], "round": number, "contender": contender}
        if any(this.items() <= run.items() and "median" in run for run in runs):
            continue
        if time.monotonic() - begun > 60 * options.minutes:
            print("out of time: start it again to go on")
            break
        runs = [run for run in runs if not this.items() <= run.items()]  # a failed try
        try:
            this.update(measure(options, work, contender), keys=options.key)
            print(f"{time.monotonic() - begun:6.0f} s  {work['name']:<22} {contender:<9} {this['median']:>9,.1f} images/s, loss {this['loss']:.3f}", flush=True)
        except (RuntimeError, TimeoutError, OSError) as error:  # the other cells are worth having
            this["error"] = str(error)
            print(f"{time.monotonic() - begun:6.0f} s  {work['name']:<22} {contender:<9} failed: {error}", flush=True)
        runs.append(this)
        kept.write_text(json.dumps(runs, indent=1) + "\n")
        (options.out / "resnet50.md").write_text(table(works, runs))
    print("\n" + table(works, runs))


if __name__ == "__main__":
    main()
