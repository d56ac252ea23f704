#!/usr/bin/env python3
"""All-reduce between two hosts: network namespaces on this machine, joined by a link of 1 Gb/s. Needs root.

usage: hosts.py [PACELINE] [--bytes 64MiB] [--rate 1gbit] [--json FILE]

Four ranks, two on each host, started as torchrun would; nobody tells them which engine to use. The link's share is what
an all-reduce must send at least, n bytes from each host to the other, over the bytes that the link could carry in that time.
"""

import argparse
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import hosts  # noqa: E402

RATES = {"1gbit": 1e9, "10gbit": 1e10, "100mbit": 1e8}


def measure(paceline, size, rate, trials):
    placing = [0, 0, 1, 1]
    with tempfile.TemporaryDirectory() as folder, hosts.TwoHosts(rate) as two:
        rows = pathlib.Path(folder) / "rows.json"
        command = [paceline, "bench", "allreduce", "--bytes", size, "--trials", str(trials), "--json", str(rows)]
        two.run_ranks(command, placing, folder)
        return json.loads(rows.read_text())


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("paceline", nargs="?", default=str(ROOT / "build/release/bin/paceline"))
    arguments.add_argument("--bytes", default="64MiB")
    arguments.add_argument("--rate", default="1gbit", choices=RATES)
    arguments.add_argument("--trials", type=int, default=5)
    arguments.add_argument("--json")
    options = arguments.parse_args()
    result = measure(options.paceline, options.bytes, options.rate, options.trials)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1))
    rows = sorted(result["rows"], key=lambda row: row["microseconds"])
    ring = next(row["microseconds"] for row in rows if row["algorithm"] == "ring")
    print(f"{'engine':<10}{'algorithm':<22}{'ms':>9}{'against ring':>14}{'share of the link':>19}")
    for row in rows:
        least_s = row["bytes"] * 8 / RATES[options.rate]
        print(f"{row['engine']:<10}{row['algorithm']:<22}{row['microseconds'] / 1e3:>9.1f}{ring / row['microseconds']:>13.2f}x"
              f"{100 * least_s / (row['microseconds'] * 1e-6):>17.1f} %")


if __name__ == "__main__":
    main()
