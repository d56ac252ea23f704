#!/usr/bin/env python3
"""Data-parallel training over a slow link: two network namespaces joined by 1 Gb/s. Needs root.

usage: link.py [--sweep codecs|buckets|algorithms|wire] [--rate 1gbit] [--rounds N] [--steps N] [--json FILE]

Each way is started anew in every round, one after the other, so that a noisy machine disturbs all alike; the table has the
medians over the rounds of each round's median step. codecs: the MLP (784-4096-4096-10, 32 samples per rank, one rank on each
host) without overlap and codec, and with both. buckets: sizes of the buckets. algorithms: two ranks on each host. wire: f32
and f16 on the wire, for the ratio of efficiencies.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import hosts  # noqa: E402

PROGRAM = ROOT / "build/release/bin/data_parallel_bench"
MIB = 1 << 20

# name -> options of data_parallel_bench; the first is what the others are compared with
SWEEPS = {
    "codecs": ("mlp", [0, 1], {
        "none, no overlap": ["--no-overlap"],
        "none": [],
        "fp16": ["--codec", "fp16"],
        "bf16": ["--codec", "bf16"],
        "int8": ["--codec", "int8"],
        "onebit": ["--codec", "onebit"],
        "topk 1 %": ["--codec", "topk"],
    }),
    "buckets": ("resnet18", [0, 1], {
        "all in one": ["--bucket", str(1 << 40)],
        **{f"{size} MiB": ["--bucket", str(size * MIB)] for size in (16, 4, 1)},
        "64 KiB": ["--bucket", str(64 << 10)],
        "every parameter": ["--bucket", "4"],
        "chosen": [],
    }),
    "algorithms": ("resnet18", [0, 0, 1, 1], {
        "ring": ["--algorithm", "ring"],
        "hierarchical": ["--algorithm", "hierarchical"],
        "torus2d": ["--algorithm", "torus2d"],
        "node_aware_pipelined": ["--algorithm", "node_aware_pipelined"],
        "hybrid": [],
    }),
    "wire": ("resnet18", [0, 1], {
        "alone": ["--no-sync"],
        "f32": [],
        "f16": ["--codec", "fp16"],
    }),
}
BATCH = {"mlp": 32, "resnet18": 16}


def step_ms(two, model, placing, options, steps, warmup):
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "steps.json"
        command = [PROGRAM, "--model", model, "--batch", BATCH[model], "--steps", steps, "--warmup", warmup, "--json", result, *options]
        two.run_ranks(command, placing, folder)
        return statistics.median(json.loads(result.read_text())["step_ms"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweep", choices=SWEEPS, default="codecs")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    model, placing, ways = SWEEPS[arguments.sweep]
    times = {name: [] for name in ways}
    with hosts.TwoHosts(arguments.rate) as two:
        for _ in range(arguments.rounds):
            for name, options in ways.items():
                times[name].append(step_ms(two, model, placing, options, arguments.steps, arguments.warmup))
    base = statistics.median(next(iter(times.values())))
    print(f"{model}, {len(placing)} ranks on 2 hosts, {arguments.rate} between them; medians of {arguments.rounds} rounds")
    print(f"{'':<24}{'ms per step':>12}{'lowest..highest':>20}{'throughput':>12}")
    for name, values in times.items():
        spread = f"{min(values):.0f}..{max(values):.0f}"
        print(f"{name:<24}{statistics.median(values):>12.1f}{spread:>20}{base / statistics.median(values):>11.2f}x")
    if arguments.json:
        arguments.json.write_text(json.dumps({"model": model, "rate": arguments.rate, "ranks": len(placing), "step_ms": times}, indent=1) + "\n")


if __name__ == "__main__":
    main()
