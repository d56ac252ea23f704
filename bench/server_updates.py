#!/usr/bin/env python3
"""Expected and reached updates per second of a parameter server, by model size, workers and link. Links other than loopback need root.

usage: server_updates.py [--links loopback,1gbit,10gbit] [--megabytes 1,10,100] [--workers 1,2,4,8] [--trials N] [--json FILE]

An update is a gradient to the server, a step of SGD with momentum there, and the new parameters back; asynchronous, workers that do nothing else.
expected: what the link could carry, were the server infinitely fast, from iperf3 just before and just after, over as many
connections as there are workers. Several workers: one pushes while another pulls, so both directions could be used at once, each as if it were alone: the
slower one's bandwidth over the model's bytes. One worker pushes, then pulls: the two directions one after the other. Loopback has no bandwidth of its own:
there, each direction takes processor time from the other. Workers begin one expected update apart, or --in-step: then they push together and pull together,
and leave a direction idle at each time. reached: server_updates_bench. share: median over trials of reached / expected.
CPU: processor time of the server per update, its start included. A link is a pair of network namespaces on this machine, so both ends share its cores.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import iperf3

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import hosts  # noqa: E402

PROGRAM = ROOT / "build/release/bin/server_updates_bench"


class Loopback:
    """One host: both ends on 127.0.0.1."""

    addresses = ["127.0.0.1", "127.0.0.1"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def command(self, host, *command):
        return list(command)


def link_named(name):
    return Loopback() if name == "loopback" else hosts.TwoHosts(name)


def iperf3_rates(link, workers, seconds):
    """Gb/s to the server, then back."""
    return iperf3.one_way_gbit_per_s(seconds, workers, host=link.addresses[0], server_prefix=link.command(0), client_prefix=link.command(1))


def expected_per_s(megabytes, workers, rates_gbit_per_s):
    gbit = megabytes * 8e-3
    there, back = rates_gbit_per_s
    return min(there, back) / gbit if workers > 1 else 1 / (gbit / there + gbit / back)


def reached(link, megabytes, workers, seconds, apart):
    model = ["--megabytes", str(megabytes), "--workers", str(workers)]
    server = subprocess.Popen(link.command(0, PROGRAM, "--serve", link.addresses[0] + ":0", *model), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().strip()
        done = subprocess.run(link.command(1, PROGRAM, "--work", address, "--seconds", str(seconds), "--apart", str(apart), *model), check=True, stdout=subprocess.PIPE, text=True,
                              timeout=600)
        row = json.loads(done.stdout)
        cpu_s = json.loads(server.communicate(timeout=60)[0])["server_cpu_s"]
        return row | {"server_cpu_ms_per_update": 1e3 * cpu_s / row["updates_with_warm_up"]}
    finally:
        server.stdin.close()
        server.wait(60)


def trial_of(options, number):
    cells = []
    for name in options.links[:: 1 if number % 2 == 0 else -1]:
        with link_named(name) as link:
            for workers in options.workers:
                for megabytes in options.megabytes:
                    before = iperf3_rates(link, workers, options.iperf3_seconds)
                    apart = 0 if options.in_step else 1 / expected_per_s(megabytes, workers, before)
                    row = reached(link, megabytes, workers, options.seconds, apart)
                    after = iperf3_rates(link, workers, options.iperf3_seconds)
                    rates = [statistics.mean(pair) for pair in zip(before, after)]
                    expected = expected_per_s(megabytes, workers, rates)
                    cells.append({"link": name, "iperf3_gbit_per_s": rates, "expected_per_s": expected, "load": os.getloadavg()[0], **row})
                    print(f"trial {number}: {name}, {megabytes:g} MB, {workers} workers: expected {expected:.2f}, reached {row['updates_per_s']:.2f}", file=sys.stderr)
    return cells


def table(cells, options):
    load = [cell["load"] for cell in cells]
    yield f"medians of {options.trials} trials; load {min(load):.1f} to {max(load):.1f}"
    yield "| link | workers | MB | iperf3 Gb/s, there and back | expected updates/s | reached | Gb/s each way | share | lowest to highest | server CPU ms |"
    yield "| --- " * 10 + "|"
    for name in options.links:
        for workers in options.workers:
            for megabytes in options.megabytes:
                rows = [cell for cell in cells if (cell["link"], cell["workers"], cell["megabytes"]) == (name, workers, megabytes)]
                middle = lambda value: statistics.median(map(value, rows))
                shares = [row["updates_per_s"] / row["expected_per_s"] for row in rows]
                there, back = (middle(lambda row: row["iperf3_gbit_per_s"][way]) for way in (0, 1))
                yield (f"| {name} | {workers} | {megabytes:g} | {there:.2f}, {back:.2f} | {middle(lambda row: row['expected_per_s']):.2f} | "
                       f"{middle(lambda row: row['updates_per_s']):.2f} | {middle(lambda row: row['updates_per_s'] * megabytes * 8e-3):.2f} | {statistics.median(shares):.2f} | {min(shares):.2f} to {max(shares):.2f} | "
                       f"{middle(lambda row: row['server_cpu_ms_per_update']):.2f} |")


def main():
    listed = lambda kind: lambda text: [kind(word) for word in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=listed(str), default="loopback,1gbit,10gbit", help="loopback, or a bandwidth as tc says it")
    parser.add_argument("--megabytes", type=listed(float), default="1,10,100")
    parser.add_argument("--workers", type=listed(int), default="1,2,4,8")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of pushing; a worker makes four pushes at least")
    parser.add_argument("--in-step", action="store_true", help="all workers begin at once")
    parser.add_argument("--iperf3-seconds", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    iperf3.require()
    if options.links != ["loopback"] and not hosts.possible():
        sys.exit("links other than loopback need the right to make network namespaces: run this as root, or with --links loopback")
    cells = [cell for number in range(options.trials) for cell in trial_of(options, number)]
    print("\n".join(table(cells, options)))
    if options.json:
        options.json.write_text(json.dumps({"cores": os.cpu_count(), "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    main()
