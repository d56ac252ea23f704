#!/usr/bin/env python3
"""The parameter server's transport between two processes over loopback, beside iperf3 in the same run.

usage: transport.py [--trials N] [--json FILE]

Every trial runs iperf3, transport_bench in plaintext and transport_bench with TLS, one after the other, so that a noisy machine disturbs all
alike; the next trial goes backwards. Medians with quartiles. of iperf3: median of the ratios within a trial. iperf3 sends as many bytes, on one
connection. small: 4 KB messages that are answered, one under way on each of 32 connections of one client process, one thread in the server.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

import iperf3

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/release/bin/transport_bench"


def transport_rows(size, messages, tls):
    command = [PROGRAM, "--bytes", str(size), "--messages", str(messages), *(["--tls"] if tls else [])]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def spread(values, digits):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.{digits}f} ({low:.{digits}f}..{high:.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=9)
    parser.add_argument("--bytes", type=int, default=100_000_000)
    parser.add_argument("--messages", type=int, default=16_000)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    iperf3.require()
    trials = []
    for number in range(arguments.trials):
        trial = {}
        ways = {
            "iperf3": lambda: iperf3.gbit_per_s(arguments.bytes),
            "plaintext": lambda: transport_rows(arguments.bytes, arguments.messages, False),
            "TLS": lambda: transport_rows(arguments.bytes, arguments.messages, True),
        }
        for name in list(ways)[:: 1 if number % 2 == 0 else -1]:
            trial[name] = ways[name]()
        trials.append(trial)

    print(f"iperf3: {spread([trial['iperf3'] for trial in trials], 1)} Gb/s; medians (quartiles) of {len(trials)} trials")
    print(f"{'':<28}{'Gb/s':>22}{'of iperf3':>12}")
    for way in ("plaintext", "TLS"):
        for index, first in enumerate(trials[0][way]):
            rows = [trial[way][index] for trial in trials]
            if first["mode"] == "small":
                rates = spread([row["messages_per_s"] for row in rows], 0)
                cpu = spread([row["server_cpu_us_per_message"] for row in rows], 1)
                print(f"{way} small: {rates} messages/s, {cpu} us of the server's CPU each")
                continue
            label = f"{way} {first['mode']} {first['body_bytes'] >> 10} KiB"
            ratio = statistics.median(row["gbit_per_s"] / trial["iperf3"] for row, trial in zip(rows, trials))
            print(f"{label:<28}{spread([row['gbit_per_s'] for row in rows], 1):>22}{ratio:>11.0%}")
    if arguments.json:
        arguments.json.write_text(json.dumps(trials, indent=1) + "\n")


if __name__ == "__main__":
    main()
