#!/usr/bin/env python3
"""A data-parallel training step on two ranks of one thread each, Paceline beside PyTorch's DistributedDataParallel.

usage: bench/data_parallel.py [--rounds 7] [--steps 20] [--pin] [--tune-peer] [--json FILE] [-- OPTION...]

Each round measures four programs, one after the other: ours, DDP, and both without synchronisation (the same two processes,
each training for itself). What stands behind -- goes to ours: --codec, --engine, --no-overlap.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from rank_processes import Ranks  # noqa: E402

RANKS = 2
CASES = [("resnet18", 16), ("mlp", 32)]  # model, samples of each rank
PATIENCE_S = 600

# What our program sets for itself (paceline/core/process_tuning.cc): memory that was freed is kept for the next step.
TUNING = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=2000000000:"
                            "glibc.malloc.trim_threshold=8000000000:glibc.malloc.top_pad=64000000"}


class Side:
    """A program that makes training steps as a rank; ddp.py says what it is told and what it answers."""

    def __init__(self, command, cores, environment):
        self.command, self.cores, self.environment = command, cores, {"OMP_NUM_THREADS": "1", **environment}

    def step_ms(self, model, batch, steps, warmup, *options):
        """The median of a step, as rank 0 saw it."""
        with tempfile.TemporaryDirectory() as folder:
            answer = pathlib.Path(folder) / "steps.json"
            command = [*self.command, "--model", model, "--batch", batch, "--steps", steps, "--warmup", warmup, "--json", answer, *options]
            ranks = Ranks(command, RANKS, timeout_s=60, patience_s=PATIENCE_S, **self.environment,
                          prefix_of_rank=lambda rank: ("taskset", "--cpu-list", str(self.cores[rank])) if self.cores else ())
            try:
                outcomes = ranks.wait()
            except subprocess.TimeoutExpired:
                sys.exit(f"still running after {PATIENCE_S} s: {' '.join(map(str, command))}")
            finally:
                ranks.close()
            if failed := [outcome for outcome in outcomes if outcome.code != 0]:
                sys.exit(f"failed: {' '.join(map(str, command))}\n" + "\n".join(outcome.err for outcome in failed))
            times = json.loads(answer.read_text())["step_ms"]
        if len(times) != steps:
            sys.exit(f"{len(times)} times of {steps} steps: {' '.join(map(str, command))}")
        return statistics.median(times)


def spread(values):
    """Median and quartiles."""
    low, _, high = statistics.quantiles(values, n=4)
    return {"median": statistics.median(values), "quartiles": [low, high]}


def measure(ours, ddp, our_options, model, batch, rounds, steps, warmup):
    contenders = {"paceline": (ours, our_options), "ddp": (ddp, []),
                  "paceline_no_sync": (ours, [*our_options, "--no-sync"]), "ddp_no_sync": (ddp, ["--no-sync"])}
    times = {name: [] for name in contenders}
    for round in range(rounds):
        # There and back: neither is always the one that comes second.
        for name in contenders if round % 2 == 0 else reversed(contenders):
            side, options = contenders[name]
            times[name].append(side.step_ms(model, batch, steps, warmup, *options))

    def ratios(above, below):  # of the measurements of a round, which are neighbours in time
        return spread([one / other for one, other in zip(times[above], times[below])])

    return {"model": model, "batch_per_rank": batch, "ranks": RANKS, "rounds": rounds, "steps": steps, "warmup": warmup,
            "paceline_options": our_options, "step_ms": times, "ratio": ratios("paceline", "ddp"),
            "ratio_no_sync": ratios("paceline_no_sync", "ddp_no_sync"),
            "paceline_efficiency": ratios("paceline_no_sync", "paceline"), "ddp_efficiency": ratios("ddp_no_sync", "ddp")}


def print_row(row):
    ours, ddp, our_twin, their_twin = map(statistics.median, row["step_ms"].values())
    low, high = row["ratio"]["quartiles"]
    print(f"{row['model']:<9} {row['batch_per_rank']:>5} {ours:>11.1f} {ddp:>8.1f} {row['ratio']['median']:>6.3f}  {low:.3f}..{high:.3f}  "
          f"{our_twin:>16.1f} {their_twin:>11.1f} {100 * row['paceline_efficiency']['median']:>12.1f} % {100 * row['ddp_efficiency']['median']:>12.1f} %",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", choices=[model for model, _ in CASES], help="only this one; may be repeated")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20, help="timed steps of each measurement")
    parser.add_argument("--warmup", type=int, default=5, help="steps before those")
    parser.add_argument("--pin", action="store_true", help="bind each rank, and the threads it starts, to a core of its own")
    parser.add_argument("--tune-peer", action="store_true", help="DDP with the memory settings that ours gives itself (docs/performance.md)")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this file")
    parser.add_argument("options", nargs="*", metavar="-- OPTION", help="of data_parallel_bench")
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        parser.error("--rounds: quartiles need two rounds or more")
    cores = sorted(os.sched_getaffinity(0))[:RANKS]
    if len(cores) < RANKS:
        sys.exit(f"{RANKS} ranks of one thread each need {RANKS} cores; there is {len(cores)}")
    program = ROOT / "build/release/bin/data_parallel_bench"
    if not program.exists():
        sys.exit(f"there is no {program}; build it: cmake --build --preset release --target data_parallel_bench")

    pinned = cores if arguments.pin else None
    ours = Side([program], pinned, {})
    ddp = Side([sys.executable, ROOT / "bench/peers/ddp.py"], pinned, TUNING if arguments.tune_peer else {})
    print(f"{'model':<9} {'batch':>5} {'Paceline ms':>11} {'DDP ms':>8} {'ratio':>6}  {'quartiles':<12}  "
          f"{'Paceline no sync':>16} {'DDP no sync':>11} {'our efficiency':>14} {'its efficiency':>14}", flush=True)
    rows = []
    for model, batch in CASES:
        if arguments.model is None or model in arguments.model:
            rows.append(measure(ours, ddp, arguments.options, model, batch, arguments.rounds, arguments.steps, arguments.warmup))
            print_row(rows[-1])
    if arguments.json:
        arguments.json.write_text(json.dumps({"pinned": arguments.pin, "peer_tuned": arguments.tune_peer, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
