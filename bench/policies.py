#!/usr/bin/env python3
"""Synchronisation models on real processes: seconds, epochs and steps to a target, four workers (ranks) of which one is three times as slow.

usage: bench/policies.py --out FOLDER [--policies LIST] [--seeds N] [--minutes M] [--paceline COMMAND]

Each cell is `paceline train recipes/fashion_mnist_server.toml --ranks 4` with a policy, a rate and a seed. First every policy tries its rates with
seed 1; the one that was quickest to the target gets the other seeds. FOLDER/policies.json has every run (what is there is not run again),
FOLDER/policies.md the table. Time is the chief's clock from the first look at the servers to the snapshot that was then evaluated; without a
server (allreduce, local_sgd, stale_allreduce) it is that of training steps, in which nobody evaluates.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECIPE = ROOT / "recipes/fashion_mnist_server.toml"

# Around what each model's arithmetic suggests: docs/synchronisation.md, docs/parameter_server.md.
RATES = {
    "allreduce": (0.025, 0.05, 0.1), "local_sgd": (0.025, 0.05, 0.1), "stale_allreduce": (0.0125, 0.025, 0.05),
    "bsp": (0.025, 0.05, 0.1), "drop_worker": (0.025, 0.05, 0.1),
    "asp": (0.05, 0.1, 0.2), "ssp": (0.05, 0.1, 0.2), "k_sync": (0.01, 0.02, 0.04), "adaptive_k": (0.01, 0.02, 0.04), "easgd": (0.025, 0.05, 0.1),
}

SETTINGS = {"local_sgd": {"sync.interval": 8}, "stale_allreduce": {"sync.staleness": 1}}


def run(options, policy, rate, seed):
    keys = {"sync.policy": policy, "optimizer.rate": rate, "train.seed": seed, **SETTINGS.get(policy, {})}
    command = [*shlex.split(options.paceline), "train", str(RECIPE), "--ranks", "4", "--quiet"]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        for key, value in keys.items():
            command += ["--set", f"{key}={value}"]
        done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            return {"policy": policy, "rate": rate, "seed": seed, "error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else str(done.returncode)}
        summary = json.loads((out / "summary.json").read_text())
        account = out / "sync.json"  # of a coordinator
        sync = json.loads(account.read_text()) if account.exists() else {"total": {"dropped": 0}, "largest_gap": 0}
        if policy == "stale_allreduce":
            sync |= {"staleness": {"1": summary["steps"]}, "largest_gap": 1}
    staleness = sync.get("staleness") or {}
    gradients = sum(staleness.values())
    return {"policy": policy, "rate": rate, "seed": seed, "seconds": summary["target_seconds"], "epochs": summary["target_epoch"], "steps": summary["steps"],
            "accuracy": summary["best_accuracy"], "images_per_second": summary["images_per_second"], "total": sync["total"], "largest_gap": sync["largest_gap"],
            "mean_staleness": sum(int(age) * count for age, count in staleness.items()) / gradients if gradients else 0,
            "compute_ms": 1e3 * summary["compute_seconds_per_step"], "communication_ms": 1e3 * summary["communication_seconds_per_step"],
            "waiting_ms": 1e3 * summary["waiting_seconds_per_step"]}


def best_rate(runs, policy):
    tried = [one for one in runs if one["policy"] == policy and one["seed"] == 1 and one.get("seconds")]
    return min(tried, key=lambda one: one["seconds"])["rate"] if tried else None


def table(runs, policies):
    lines = ["| policy | rate | seconds to the target | spread | epochs | steps | mean staleness | largest gap | dropped | images/s | seeds |", "| --- " * 11 + "|"]
    for policy in policies:
        rate = best_rate(runs, policy)
        good = [one for one in runs if one["policy"] == policy and one["rate"] == rate and one.get("seconds")]
        if not good:
            lines.append(f"| {policy} | | never | | | | | | | | 0 |")
            continue
        seconds = [one["seconds"] for one in good]
        middle = lambda key: statistics.median(one[key] for one in good)  # noqa: E731
        lines.append(f"| {policy} | {rate} | {statistics.median(seconds):.1f} | {min(seconds):.1f} to {max(seconds):.1f} | {middle('epochs'):.2f} | {middle('steps'):.0f} "
                     f"| {middle('mean_staleness'):.2f} | {middle('largest_gap'):.0f} | {statistics.median(one['total']['dropped'] for one in good):.0f} "
                     f"| {middle('images_per_second'):,.0f} | {len(good)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--policies", default="allreduce,local_sgd,stale_allreduce,bsp,drop_worker,asp,ssp,k_sync,adaptive_k,easgd")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=60, help="begin nothing after this")
    parser.add_argument("--paceline", default=str(ROOT / "build/release/bin/paceline"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / "policies.json"
    runs = json.loads(kept.read_text()) if kept.exists() else []
    policies = options.policies.split(",")
    begun = time.monotonic()

    def measure(policy, rate, seed):
        if any((one["policy"], one["rate"], one["seed"]) == (policy, rate, seed) for one in runs):
            return True
        if time.monotonic() - begun > 60 * options.minutes:
            return False
        runs.append(run(options, policy, rate, seed))
        print(f"{time.monotonic() - begun:6.0f} s  {policy} rate {rate} seed {seed}: {runs[-1].get('seconds', runs[-1].get('error'))}", flush=True)
        kept.write_text(json.dumps(runs, indent=1) + "\n")
        (options.out / "policies.md").write_text(table(runs, policies))
        return True

    for number in range(3):  # one rate of every policy, then the next: a drift of the machine hits all
        for policy in policies:
            measure(policy, RATES[policy][number], 1)
    for seed in range(2, options.seeds + 1):
        for policy in policies:
            if rate := best_rate(runs, policy):
                measure(policy, rate, seed)
    print("\n" + table(runs, policies))


if __name__ == "__main__":
    sys.exit(main())
