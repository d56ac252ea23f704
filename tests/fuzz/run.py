#!/usr/bin/env python3
"""Runs the fuzz targets of a build folder (preset fuzz), and prints a table.

Each target begins with its corpus in tests/fuzz/corpus/TARGET; what it finds interesting goes to
BUILD/fuzz/corpus/TARGET, so that a later call goes on from there. An input that ends a target is a finding: it is kept
in BUILD/fuzz/findings, its report is printed, and the exit code is 1. The seed of the mutations follows from the
commit, so a commit tried again tries the same.

usage: run.py BUILD_FOLDER (--runs N | --seconds S | --minimise) [--jobs N] [--targets NAME...] [--seed N]
              [--hang SECONDS]
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MOST_BYTES = {"cifar": 6500}  # of an input; two records of CIFAR-100 need 6,148
DEFAULT_MOST_BYTES = 4096
MOST_FILES, MOST_CORPUS_BYTES = 50, 20_000  # that minimise() keeps for each target, beside seeds and regressions
SECONDS_OF_ONE_INPUT = 25  # more is a hang; by the clock, so a target that waits long for a core needs more (--hang)
INTERRUPTED = 72  # libFuzzer's exit code after Ctrl-C
LIMITS = ["-rss_limit_mb=2048", "-detect_leaks=1"]


def seed_of_commit():
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True).stdout.strip()
    return int(commit[:7], 16) + 1 if re.fullmatch("[0-9a-f]{40}", commit) else 1


def last_number(pattern, text):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def fuzz(target, build, length, seed, hang):
    """A row of the table, and what a failed target said."""
    found, findings = build / "fuzz/corpus" / target, build / "fuzz/findings"
    found.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    command = [
        build / "fuzz" / f"fuzz_{target}", *length, f"-seed={seed}",
        f"-max_len={MOST_BYTES.get(target, DEFAULT_MOST_BYTES)}", f"-timeout={hang}", *LIMITS, "-print_final_stats=1",
        "-use_value_profile=0", f"-artifact_prefix={findings}/{target}-", found, HERE / "corpus" / target
    ]
    began = time.monotonic()
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    output = done.stdout.decode(errors="replace")
    row = (target, last_number(r"stat::number_of_executed_units: (\d+)", output) or
           last_number(r"#(\d+)\s", output), time.monotonic() - began, last_number(r"cov: (\d+)", output),
           last_number(r" ft: (\d+)", output), len(list(
               (HERE / "corpus" / target).iterdir())), int(done.returncode not in (0, INTERRUPTED)))
    return row, output if row[-1] else ""


def table(rows):
    lines = [
        "| target | runs | seconds | runs/s | edges covered | features | files in the corpus | findings |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    ]
    for target, runs, seconds, edges, features, files, findings in rows:
        lines.append(
            f"| {target} | {runs:,} | {seconds:.0f} | {runs / max(seconds, 1e-3):,.0f} | {edges:,} | "
            f"{features:,} | {files} | {findings} |"
        )
    return "\n".join(lines)


def features_of_files(target, build, folders):
    """What each file of the folders reaches, as libFuzzer's numbers of features."""
    with tempfile.TemporaryDirectory() as folder:
        control, unused = pathlib.Path(folder) / "control", pathlib.Path(folder) / "unused"
        unused.mkdir()
        subprocess.run([build / "fuzz" / f"fuzz_{target}", "-set_cover_merge=1", f"-merge_control_file={control}",
                        unused, *folders], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        count, _, *lines = control.read_text().splitlines()  # the number of files, their names, what each reaches
    files = [pathlib.Path(line) for line in lines[:int(count)]]
    rows = [line.split() for line in lines[int(count):]]
    return {files[int(row[1])]: set(row[2:]) for row in rows if row[0] == "FT"}


def stays(file):
    return file.name.startswith(("seed-", "regression-"))


def minimise(target, build):
    """Chooses anew which found files the repository's corpus has: greedily those that reach the most for the room that
    they take. Seeds and regressions stay."""
    corpus = HERE / "corpus" / target
    features = features_of_files(target, build, [corpus, build / "fuzz/corpus" / target])
    reached = set().union(*(features[file] for file in features if stays(file)))
    bytes_of = {file: file.read_bytes() for file in features if not stays(file)}
    chosen, room = {}, MOST_CORPUS_BYTES

    def worth(file):
        return len(features[file] - reached) / (1 / MOST_FILES + len(bytes_of[file]) / MOST_CORPUS_BYTES)

    while len(chosen) < MOST_FILES:
        best = max((file for file in bytes_of if len(bytes_of[file]) <= room), key=worth, default=None)
        if best is None or worth(best) == 0:
            break
        chosen[best.name] = bytes_of[best]
        room -= len(bytes_of[best])
        reached |= features[best]
    for file in corpus.iterdir():
        if not stays(file):
            file.unlink()
    for name, contents in chosen.items():
        (corpus / name).write_bytes(contents)
    print(
        f"{target}: {len(list(corpus.iterdir()))} files, "
        f"{sum(file.stat().st_size for file in corpus.iterdir()):,} bytes"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--runs", type=int)
    length.add_argument("--seconds", type=int)
    length.add_argument("--minimise", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--targets", nargs="+", default=sorted(file.name for file in (HERE / "corpus").iterdir()))
    parser.add_argument("--seed", type=int, default=seed_of_commit())
    parser.add_argument("--hang", type=int, default=SECONDS_OF_ONE_INPUT)
    options = parser.parse_args()
    build = options.build.resolve()
    if options.minimise:
        for target in options.targets:
            minimise(target, build)
        return 0
    amount = [f"-runs={options.runs}"] if options.runs else [f"-max_total_time={options.seconds}"]
    rows = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as jobs:
        tried = jobs.map(lambda target: fuzz(target, build, amount, options.seed, options.hang), options.targets)
        for row, output in tried:
            rows.append(row)
            if output:
                print(output[-8000:])
            print(f"{row[0]}: {row[1]:,} runs in {row[2]:.0f} s{', A FINDING' if row[6] else ''}", flush=True)
    print(f"\nseed {options.seed}\n{table(rows)}")
    return int(any(row[6] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
