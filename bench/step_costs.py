#!/usr/bin/env python3
"""What a local step costs on a parameter server: computing (Cp), and everything else a worker does between two computations (Cu), by model and policy.

usage: bench/step_costs.py [--workers N] [--slowdown F] [--steps N] [--models LIST] [--policies LIST] [--json FILE] [--paceline COMMAND]

Zhang's table 4 with his settings (recipes/zhang_*.toml) on made-up images of the same shape, real processes over loopback; the first worker is F times as slow.
Cp and Cu are means over the workers, so that Cp has the slow one's pauses in it. Cu is push, waiting for the policy and pull; allreduce: what is not hidden behind
backward. Elastic averaging exchanges every N/2 steps here, less often in his settings, so that its Cu is higher than there.
"""

import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = {"resnet34": (10, 32, 20), "mobilenet": (10, 32, 20), "resnet50": (200, 64, 10), "resnet101": (100, 32, 10), "vgg16": (100, 32, 30)}  # classes, pixels, interval
POLICIES = ("asp", "bsp", "ssp", "adaptive_k", "drop_worker", "easgd", "allreduce")


def measure(options, model, policy):
    classes, pixels, interval = MODELS[model]
    recipe = ROOT / f"recipes/zhang_{model}.toml"
    batch = options.batch or tomllib.loads(recipe.read_text())["batch"]["local"]
    keys = {"data.name": "synthetic", "data.classes": classes, "data.channels": 3, "data.image_size": pixels, "data.test_samples": 16,
            "data.train_samples": options.workers * batch * options.steps, "train.epochs": 1, "train.threads": 1, "sync.policy": policy,
            "sync.slowdown": [options.slowdown] + [1] * (options.workers - 1)}
    if policy == "easgd":
        keys["sync.interval"] = min(interval, max(options.steps // 2, 1))
    command = [*shlex.split(options.paceline), "train", str(recipe), "--ranks", str(options.workers), "--quiet"]
    for key, value in keys.items():
        command += ["--set", f"{key}={value}"]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        subprocess.run([*command, "--out", str(out)], check=True, stdout=subprocess.DEVNULL, timeout=1800)
        summary = json.loads((out / "summary.json").read_text())
    return {"model": model, "policy": policy, "parameters": summary["parameters"], "batch": batch, "cp_s": summary["compute_seconds_per_step"],
            "cu_s": summary["waiting_seconds_per_step"]}


def table(cells, options):
    yield "| model, parameters, samples | " + " | ".join(f"{policy} Cp, Cu" for policy in options.policies) + " |"
    yield "| --- " * (1 + len(options.policies)) + "|"
    for model in options.models:
        rows = {cell["policy"]: cell for cell in cells if cell["model"] == model}
        if not rows:
            continue
        first = next(iter(rows.values()))
        yield (f"| {model}, {first['parameters'] / 1e6:.1f} M, {first['batch']} | "
               + " | ".join(f"{rows[policy]['cp_s']:.2f} s, {rows[policy]['cu_s']:.2f} s" if policy in rows else "" for policy in options.policies) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--slowdown", type=float, default=3)
    parser.add_argument("--steps", type=int, default=6, help="of each worker, in the mean")
    parser.add_argument("--batch", type=int, help="of a worker (default: the recipe's)")
    parser.add_argument("--models", type=words, default=list(MODELS))
    parser.add_argument("--policies", type=words, default=list(POLICIES))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--paceline", default=str(ROOT / "build/release/bin/paceline"), help="how it is started")
    options = parser.parse_args()
    cells = []
    for model in options.models:
        for policy in options.policies:
            cells.append(measure(options, model, policy))
            print(f"{model}, {policy}: Cp {cells[-1]['cp_s']:.2f} s, Cu {cells[-1]['cu_s']:.2f} s", file=sys.stderr, flush=True)
    print("\n".join(table(cells, options)))
    if options.json:
        options.json.write_text(json.dumps({"workers": options.workers, "slowdown": options.slowdown, "steps": options.steps, "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    main()
