#!/usr/bin/env python3
"""The parameter server over loopback, in plaintext and with TLS, beside iperf3 (and ps-lite, where it is built) in the same run.

usage: server.py [--trials N] [--json FILE] [--without NAME]...

Every trial runs iperf3, server_bench in plaintext, server_bench with certificates on both sides, and ps-lite, one after the other, so that a
noisy machine disturbs all alike; the next trial goes backwards. Medians with quartiles. Gb/s: bytes that went, both ways together, over the time from the first
byte of a gradient to the last of the new parameters, update included. of iperf3: median of the ratios within a trial; iperf3 sends as many bytes on one
connection, first there, then back. small: 4 KB gradients, each answered with the new parameters, one under way on each of 32 connections. The server has
its own process and, there, one thread.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import time

import iperf3

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build/release/bin"
PS_LITE = BIN / "ps_lite_bench"
BARS = {"of iperf3": 0.5, "small pushes/s": 8000}  # of the plaintext server


def rows_of(text):
    return {row["mode"]: row for row in map(json.loads, text.splitlines())}


def iperf3_rates(options):
    size = options.megabytes * options.rounds * 1_000_000
    there, back = iperf3.gbit_per_s(size), iperf3.gbit_per_s(size, reverse=True)
    return {"there_gbit_per_s": there, "back_gbit_per_s": back, "gbit_per_s": 2 / (1 / there + 1 / back)}


def server_rates(options, tls):
    command = [BIN / "server_bench", "--megabytes", str(options.megabytes), "--rounds", str(options.rounds), "--pushes", str(options.pushes),
               "--connections", str(options.connections), *(["--tls"] if tls else [])]
    return rows_of(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def ps_lite_rows(options, workers, under_way, megabytes):
    """A scheduler, a server, and workers, as ps-lite's own scripts start them."""
    environment = dict(os.environ, DMLC_NUM_SERVER="1", DMLC_NUM_WORKER=str(workers), DMLC_PS_ROOT_URI="127.0.0.1", DMLC_NODE_HOST="127.0.0.1",
                       DMLC_PS_ROOT_PORT=str(iperf3.free_port()))
    command = [str(word) for word in (PS_LITE, megabytes, options.rounds, options.pushes, under_way)]
    processes = [subprocess.Popen(command, env=dict(environment, DMLC_ROLE=role), stdout=subprocess.PIPE, text=True)
                 for role in ("scheduler", "server", *["worker"] * workers)]
    try:
        while any(process.poll() is None for process in processes) and not any(process.poll() for process in processes):
            time.sleep(0.05)  # what it prints fits into the pipe
    finally:
        for process in processes:  # when one fails the others would wait for it
            process.kill()
    said = "".join(process.communicate()[0] for process in processes)
    if any(process.returncode for process in processes):
        raise RuntimeError("ps_lite_bench failed")
    return rows_of(said)


def ps_lite_rates(options):
    """Small pushes twice: from as many workers as ours has connections, and all under way at once on one connection."""
    one = ps_lite_rows(options, 1, options.connections, options.megabytes)
    many = ps_lite_rows(options, options.connections, 1, 0)
    return {"bulk": one["bulk"], "small": many["small"], "small, one connection": one["small"]}


def spread(values, digits):
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return f"{middle:.{digits}f} ({low:.{digits}f}..{high:.{digits}f})"


def table(trials):
    yield f"medians (quartiles) of {len(trials)} trials; load {min(trial['load'] for trial in trials):.1f} to {max(trial['load'] for trial in trials):.1f}"
    yield f"{'':<26}{'Gb/s, both ways':>24}{'of iperf3':>24}{'server CPU s':>24}"
    yield f"{'iperf3':<26}{spread([trial['iperf3']['gbit_per_s'] for trial in trials], 1):>24}"
    ways = [name for name in trials[0] if name not in ("iperf3", "load")]
    for way in ways:
        rows = [trial[way]["bulk"] for trial in trials]
        ratios = [8 * row["gb_per_s"] / trial["iperf3"]["gbit_per_s"] for row, trial in zip(rows, trials)]
        yield (f"{way:<26}{spread([8 * row['gb_per_s'] for row in rows], 1):>24}{spread(ratios, 2):>24}"
               f"{spread([row['server_cpu_s'] for row in rows], 3):>24}")
    yield f"{'small':<26}{'pushes/s':>24}{'':>24}{'server CPU us each':>24}"
    for way in ways:
        for mode in trials[0][way]:
            if mode.startswith("small"):
                rows = [trial[way][mode] for trial in trials]
                label = way + mode.removeprefix("small")
                yield (f"{label:<26}{spread([row['pushes_per_s'] for row in rows], 0):>24}{'':>24}"
                       f"{spread([row['server_cpu_us_per_push'] for row in rows], 1):>24}")


def bars(trials):
    if "plaintext" not in trials[0]:
        return
    reached = {"of iperf3": statistics.median(8 * trial["plaintext"]["bulk"]["gb_per_s"] / trial["iperf3"]["gbit_per_s"] for trial in trials),
               "small pushes/s": statistics.median(trial["plaintext"]["small"]["pushes_per_s"] for trial in trials)}
    for name, bar in BARS.items():
        yield f"{name}: {reached[name]:.2f}, bar {bar}: {'reached' if reached[name] >= bar else 'MISSED'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=9)
    parser.add_argument("--megabytes", type=int, default=100, help="of the model")
    parser.add_argument("--rounds", type=int, default=8, help="pushes and pulls of it in a trial")
    parser.add_argument("--pushes", type=int, default=32_000, help="small ones, in a trial")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--without", action="append", default=[], choices=("plaintext", "TLS", "ps-lite"))
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    iperf3.require()
    ways = {"iperf3": lambda: iperf3_rates(options), "plaintext": lambda: server_rates(options, False), "TLS": lambda: server_rates(options, True)}
    if PS_LITE.exists():
        ways["ps-lite"] = lambda: ps_lite_rates(options)
    ways = {name: way for name, way in ways.items() if name not in options.without}
    trials = []
    for number in range(options.trials):
        trial = {"load": os.getloadavg()[0]} | dict.fromkeys(ways)  # the order of the table, whatever the order of measuring
        for name in list(ways)[:: 1 if number % 2 == 0 else -1]:
            trial[name] = ways[name]()
        trials.append(trial)
    print("\n".join([*table(trials), *bars(trials)]))
    if options.json:
        machine = {"cores": os.cpu_count(), "kernel": platform.release(), "machine": platform.machine()}
        settings = {name: getattr(options, name) for name in ("megabytes", "rounds", "pushes", "connections")}
        options.json.write_text(json.dumps({"machine": machine, "settings": settings, "trials": trials}, indent=1) + "\n")


if __name__ == "__main__":
    main()
