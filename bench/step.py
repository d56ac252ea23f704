#!/usr/bin/env python3
"""A single-process training step, Paceline beside PyTorch: steps of the two alternate in one run on the same cores.

usage: bench/step.py [--steps 30] [--threads N] [--json FILE]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
from torch_step import TorchStep  # noqa: E402

# model, batch, channels, image, steps per measurement (a step of the small CNN is short: several are timed together)
CASES = [("resnet18", 64, 3, 32, 1), ("small_cnn", 128, 1, 28, 4)]


class PacelineStep:
    def __init__(self, model, batch, channels, image, threads):
        program = HERE.parent / "build/release/bin/step_bench"
        keys = [f"model.name={model}", f"batch.global={batch}", f"data.channels={channels}", f"data.image_size={image}", f"train.threads={threads}"]
        self.process = subprocess.Popen([program, HERE / "step.toml", *keys], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return tuple(map(float, self.process.stdout.readline().split()))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(model, batch, channels, image, chunk, rounds, threads):
    ours, theirs = PacelineStep(model, batch, channels, image, threads), TorchStep(model, batch, channels, image, threads)
    ours(5), theirs(5)  # warm-up
    our_times, their_times, waited = [], [], 0
    for round in range(rounds):
        def run_ours():
            nonlocal waited
            seconds, wait = ours(chunk)
            our_times.append(seconds / chunk)
            waited += wait

        def run_theirs():
            their_times.append(theirs(chunk) / chunk)

        for run in (run_ours, run_theirs) if round % 2 == 0 else (run_theirs, run_ours):
            run()
    ours.close()
    ratios = [mine / peer for mine, peer in zip(our_times, their_times)]
    quartiles = statistics.quantiles(ratios, n=4)
    return {"model": model, "batch": batch, "image": image, "threads": threads, "steps": rounds * chunk,
            "paceline_ms": 1e3 * statistics.median(our_times), "pytorch_ms": 1e3 * statistics.median(their_times),
            "ratio": statistics.median(our_times) / statistics.median(their_times),
            "ratio_quartiles": [quartiles[0], quartiles[2]], "loader_wait_share": waited / (sum(our_times) * chunk)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30, help="measurements per program")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this file")
    arguments = parser.parse_args()
    print(f"{'model':<10} {'batch':>5} {'pixels':>6} {'Paceline ms':>12} {'PyTorch ms':>11} {'ratio':>6}  {'quartiles':<13} {'loader wait':>11}")
    rows = []
    for case in CASES:
        row = measure(*case, arguments.steps, arguments.threads)
        rows.append(row)
        low, high = row["ratio_quartiles"]
        print(f"{row['model']:<10} {row['batch']:>5} {row['image']:>6} {row['paceline_ms']:>12.2f} {row['pytorch_ms']:>11.2f} "
              f"{row['ratio']:>6.3f}  {low:.3f}..{high:.3f}  {100 * row['loader_wait_share']:>9.2f} %", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
