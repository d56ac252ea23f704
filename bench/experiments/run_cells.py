#!/usr/bin/env python3
"""Trains the cells of cells.py and puts their results into one table.

usage: bench/experiments/run_cells.py LIST... --out FOLDER [--data DIR] [--minutes M] [--jobs N] [--seeds 1,2] [--have FILE] [--paceline COMMAND]

Each cell and seed is `paceline train RECIPE --set ... --out RUNS/CELL/seed-N`, skipped where its summary.json is there, resumed where it was interrupted.
All cells have their first seed before any has its second, so that a run that is cut short has something of each. When the minutes are over,
what is under way writes a checkpoint and ends. A run that diverges is a result. FOLDER/cells.json has every run with its curve, FOLDER/cells.md the table.
"""

import argparse
import json
import pathlib
import shlex
import signal
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
from cells import LISTS  # noqa: E402

DIVERGED, INTERRUPTED = 6, 130  # docs/errors.md


def toml(value):
    return json.dumps(value)  # numbers, lists, booleans and text are written alike


class Run:
    """One cell with one seed."""

    def __init__(self, cell, seed, options):
        self.cell, self.seed, self.had = cell, seed, options.had.get((cell.name, seed))
        self.folder = options.runs / cell.name / f"seed-{seed}"
        self.verdict = self.folder.parent / f"seed-{seed}.diverged"
        keys = {**cell.keys, "checkpoint.every_steps": 10**9, **dict(key.split("=", 1) for key in options.key), "train.seed": seed}
        if options.data and keys.get("data.name") != "synthetic":
            keys["data.root"] = str(options.data)
        self.command = [*shlex.split(options.paceline), "train", str(ROOT / cell.recipe)]
        for name, value in keys.items():
            self.command += ["--set", f"{name}={value if isinstance(value, str) else toml(value)}"]
        self.command += ["--out", str(self.folder), "--quiet"]

    def first_of_family(self, runs):
        """The first seeds of all cells that this one competes with."""
        return [run for run in runs if run.cell.family == self.cell.family and run.seed == run.cell.seeds[0]]

    def wanted(self, runs):
        """Whether to make it; None: that is not known yet."""
        if not self.cell.family or self.seed == self.cell.seeds[0]:
            return True
        rivals = self.first_of_family(runs)
        if not all(rival.done() for rival in rivals):
            return None
        accuracy = {rival.cell.name: rival.result(1).get("test_accuracy", -1) for rival in rivals}
        return max(accuracy, key=accuracy.get) == self.cell.name

    def done(self):
        finished = (self.folder / "summary.json").exists() and self.summary()["ending"] != "interrupted"
        return finished or self.verdict.exists() or self.had is not None

    def summary(self):
        return json.loads((self.folder / "summary.json").read_text())

    def start(self):
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        resume = ["--resume"] if (self.folder / "recipe.toml").exists() else []
        self.log = self.folder.parent / f"seed-{self.seed}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen([*self.command, *resume], stdout=subprocess.DEVNULL, stderr=log,
                                            start_new_session=True)  # Ctrl-C is for us: two would stop it without a checkpoint
        self.begun = time.monotonic()

    def ended(self):
        """What became of it, in words; None: it is under way."""
        code = self.process.poll()
        if code is None:
            return None
        if code == DIVERGED:
            self.verdict.write_text(self.log.read_text())
            return "diverged"
        if code == INTERRUPTED:
            return "interrupted"
        return f"failed with {code}: {' '.join(self.log.read_text().strip().splitlines()[-2:])}" if code else f"{100 * self.summary()['test_accuracy']:.2f} %"

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # it writes a checkpoint; a second one would stop it at once
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def curve(self):
        metrics = self.folder / "metrics.jsonl"
        lines = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
        return [[line["epoch"], line["accuracy"], line["seconds"]] for line in lines if line["kind"] == "test"]

    def result(self, target):
        if self.had is not None:
            return {**self.had, **first_at(target, self.had["curve"])}
        result = {"cell": self.cell.name, "seed": self.seed, "curve": self.curve()}
        if self.verdict.exists():
            return {**result, "diverged": self.verdict.read_text().strip().splitlines()[-1]}
        keep = ("test_accuracy", "best_accuracy", "test_loss", "train_loss", "steps", "epochs", "skipped_steps", "train_seconds", "eval_seconds",
                "images_per_second", "weights_sha256", "precision", "device", "model")
        summary = self.summary()
        return {**result, **{key: summary[key] for key in keep}, **first_at(target, result["curve"])}


def first_at(target, curve):
    reached = [(epoch, seconds) for epoch, accuracy, seconds in curve if accuracy >= target]
    return {"target_epoch": reached[0][0] if reached else None, "target_seconds": reached[0][1] if reached else None}


def in_order(cells, seeds):
    """(cell, seed), every cell's first seed first; a cell that is in two lists once."""
    once = {cell.name: cell for cell in cells}
    rounds = max(len(cell.seeds) for cell in once.values())
    for number in range(rounds):
        for cell in once.values():
            if number < len(cell.seeds) and (not seeds or cell.seeds[number] in seeds):
                yield cell, cell.seeds[number]


def train_all(runs, options):
    under_way = []
    try:
        train_waiting(runs, under_way, options)
    finally:  # interrupted: nobody goes on alone
        for run in under_way:
            run.stop()


def train_waiting(runs, under_way, options):
    waiting, begun = [run for run in runs if not run.done()], time.monotonic()
    print(f"{len(runs)} runs, {len(waiting)} of them to be made", flush=True)
    while waiting or under_way:
        over = time.monotonic() - begun > 60 * options.minutes
        if over and waiting:
            print(f"out of time: {len(waiting)} runs are not begun", flush=True)
            waiting = []
        waiting = [run for run in waiting if run.wanted(runs) is not False]
        ready = [run for run in waiting if run.wanted(runs)]
        if waiting and not ready and not under_way:
            print(f"{len(waiting)} runs wait for rivals that are not made", flush=True)  # --seeds, or a failure
            break
        for run in ready[:options.jobs - len(under_way)]:
            waiting.remove(run)
            under_way.append(run)
            run.start()
        for run in list(under_way):
            if (words := run.ended()) is not None:
                under_way.remove(run)
                print(f"{time.monotonic() - begun:6.0f} s  {run.cell.name} seed {run.seed}: {words} ({time.monotonic() - run.begun:.1f} s)", flush=True)
            elif time.monotonic() - run.begun > options.cell_seconds or over:
                run.stop()
        time.sleep(0.05)


def spread(values):
    return f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""


def table(names, results, target):
    text = ""
    for name in names:
        text += f"\n### {name}\n\n| cell | test accuracy, % | best | epochs to {100 * target:g} % | steps | images/s | seeds | diverged |\n" + "| --- " * 8 + "|\n"
        for cell in LISTS[name]():
            mine = [result for result in results if result["cell"] == cell.name]
            if cell.family and len(mine) == 1 and any(len([r for r in results if r["cell"] == rival.name]) > 1
                                                      for rival in LISTS[name]() if rival.family == cell.family):
                continue  # a setting that was not the best
            good = [result for result in mine if "test_accuracy" in result]
            if not mine:
                continue
            if not good:
                text += f"| {cell.name} | | | | | | 0 | {len(mine)} |\n"
                continue
            last, best = ([100 * result[key] for result in good] for key in ("test_accuracy", "best_accuracy"))
            reached = [result["target_epoch"] for result in good if result["target_epoch"] is not None]
            epochs = (f"{statistics.mean(reached):.1f}" if reached else "never") + (f" ({len(reached)} of {len(good)})" if 0 < len(reached) < len(good) else "")
            text += (f"| {cell.name} | {statistics.mean(last):.2f}{spread(last)} | {statistics.mean(best):.2f} | {epochs} | {good[0]['steps']} "
                     f"| {statistics.mean(result['images_per_second'] for result in good):,.0f} | {len(good)} | {len(mine) - len(good)} |\n")
    return text.lstrip("\n")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lists", nargs="+", choices=LISTS, metavar="LIST", help=", ".join(LISTS))
    parser.add_argument("--out", type=pathlib.Path, required=True, help="where the results go")
    parser.add_argument("--runs", type=pathlib.Path, help="where the runs are (default: OUT/runs)")
    parser.add_argument("--data", type=pathlib.Path, help="data.root")
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--cell-seconds", type=float, default=180, help="the most for one run")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time on the one device: then do not quote their speed")
    parser.add_argument("--seeds", default="", help="only these")
    parser.add_argument("--have", type=pathlib.Path, help="a cells.json of an earlier stay: its runs are not made again, and are in the table")
    parser.add_argument("--only", default="", help="cells whose name contains this")
    parser.add_argument("--key", action="append", default=[], help="of every recipe: train.device=cpu")
    parser.add_argument("--target", type=float, default=0.8, help="the accuracy that counts as reached")
    parser.add_argument("--paceline", default=str(ROOT / "build/cuda/bin/paceline"), help="how it is started")
    options = parser.parse_args()
    options.runs = options.runs or options.out / "runs"
    had = json.loads(options.have.read_text()) if options.have else []
    options.had = {(result["cell"], result["seed"]): result for result in had}
    return options


def main():
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    cells = [cell for name in options.lists for cell in LISTS[name]() if options.only in cell.name]
    seeds = [int(seed) for seed in options.seeds.split(",") if seed]
    runs = [Run(cell, seed, options) for cell, seed in in_order(cells, seeds)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("run_cells.py: told to stop; the same command goes on"))
    try:
        train_all(runs, options)
    except KeyboardInterrupt:
        sys.exit("run_cells.py: interrupted; the same command goes on")
    finally:
        results = [run.result(options.target) for run in runs if run.done()]
        (options.out / "cells.json").write_text(json.dumps(results, indent=1) + "\n")
        (options.out / "cells.md").write_text(table(options.lists, results, options.target))
    print("\n" + table(options.lists, results, options.target))


if __name__ == "__main__":
    main()
