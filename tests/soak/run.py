#!/usr/bin/env python3
"""The soak: many short runs, each disturbed in ways that are drawn from a seed, and what runs promise is checked on
what they leave.

Drawn (draw.py): policy and engine (all policies of the ranks over shm, gloo and mpi; all of the parameter server over
one or two shards), two
or three ranks, whether what dies is started again, and for each start of the run but the last one or two faults
(faults.py):
  kill       SIGKILL of a rank, worker, server, or the chief (the process that the user has started), at a step or
  while they start
  stop       SIGSTOP, and SIGCONT up to 1.5 s later
  strangers  TCP connections to every port at which the run listens: silent ones, random bytes, broken-off openings
  full_disk  the run's folder is full: a small tmpfs where the soak is root, else RLIMIT_FSIZE, which is of single files
  damage     between two starts: a bit flips in a file of the newest checkpoint, or of every one, or it is cut off, or
  empty
Then the run goes on (--resume), in the end without disturbance.

Promised and checked, after every start:
  hang        it ends within PATIENCE_S; if not, the stacks of all its processes are written beside the log
  code        it ends with 0 unless a fault of this leg ends runs: strangers and stops never do; no bug (70, 1, a
  crash) ever shows
  orphan      no process of it is left
  checkpoint  every checkpoint is whole (sha256sum), unless this soak has damaged it; a run that has written some
  leaves a whole one, also
              beside damaged ones; `paceline eval` can read the run's newest
  sample      at the end exactly epochs x samples were used; lines of metrics rise, none twice
  bits        weights_sha256 is that of an undisturbed run for all policies of the ranks; for BSP the parameters,
  where no worker was lost

No policy but these promises bits; the accuracy that others reach is chance here, and a matter of tests/server_test.py.

A run is one line of BUILD/soak/seed-S-PROGRAM.jsonl, so a soak that was stopped goes on where it was; another build
of the program begins
anew. At its end (and with --table) it prints what docs/results/soak.md holds. What a failed run left stays in
BUILD/soak/failed-S-NUMBER. Exit code 1: a promise was broken.

usage: run.py PACELINE BUILD_FOLDER [--runs 300] [--seed 1] [--only NUMBER...] [--table]
"""

import argparse
import collections
import fcntl
import hashlib
import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import draw
import faults
import processes

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE_S = 240  # of a leg that takes a few seconds
CHECKS = ["sample", "hang", "checkpoint", "bits", "code", "orphan"]
BUGS = {
    1, 70, 2, 3, 4, 6, 128 + signal.SIGSEGV, 128 + signal.SIGABRT, 128 + signal.SIGBUS, 128 + signal.SIGFPE,
    -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGFPE
}
MPI_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def parameters_of(run):
    """The bytes of the newest weights without the statistics of batch normalisation: which worker has which share is chance."""
    data = (sorted((run / "checkpoints").glob("step-*"))[-1] / "weights.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    hashed = hashlib.sha256()
    for name in sorted(header):
        if name != "__metadata__" and "running_" not in name and "num_batches" not in name:
            begin, end = header[name]["data_offsets"]
            hashed.update(name.encode() + data[8 + length + begin:8 + length + end])
    return hashed.hexdigest()


def is_whole(checkpoint):
    """Why not; nothing where it is."""
    try:
        lines = (checkpoint / "SHA256SUMS").read_text().splitlines()
        sums = dict(reversed(line.split("  ", 1)) for line in lines)
        for name in ("weights.safetensors", "optimizer.safetensors", "state.json"):
            if name not in sums:
                return f"no line for {name}"
        for name, expected in sums.items():
            if hashlib.sha256((checkpoint / name).read_bytes()).hexdigest() != expected:
                return f"{name} does not have its checksum"
        json.loads((checkpoint / "state.json").read_text(), parse_constant=lambda word: 1 / 0)
    except (OSError, ValueError, ZeroDivisionError) as failure:
        return repr(failure)
    return None


class Run:
    """One run of the soak, over all its legs."""

    def __init__(self, paceline, plan, seed, keep):
        self.paceline, self.plan, self.seed, self.keep = paceline, plan, seed, keep
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="paceline-soak-"))
        self.disk = faults.SmallDisk(self.folder / "disk")
        self.out = self.folder / "disk/run"
        self.log = []
        self.broken = []  # (check, what)
        self.counts = collections.Counter()
        self.damaged = set()
        self.lost_worker = False
        self.mark = ""  # of the newest leg
        self.leg_began = 0
        (self.folder / "r.toml").write_text(draw.RECIPE)

    def say(self, text):
        self.log.append(text)

    def breaks(self, check, what):
        self.broken.append((check, what))
        self.say(f"BROKEN {check}: {what}")

    def command(self, resume):
        plan = self.plan
        words = [
            self.paceline, "train", "r.toml", "--out", "disk/run", "--quiet", "--set", f"checkpoint.keep={plan.keep}",
            "--set", f"sync.slowdown={[draw.SLOWDOWN] * plan.ranks}", *(["--resume"] if resume else [])
        ]
        if plan.engine == "server":
            return [
                *words, "--ranks",
                str(plan.ranks), "--set", f"sync.policy={plan.policy}", "--set", f"sync.servers={plan.servers}",
                "--set", f"sync.lease_seconds={draw.LEASE_SECONDS}", "--restart"
            ]
        if plan.policy != "allreduce":
            words += [
                "--set", f"sync.policy={plan.policy}", "--set",
                "sync.interval=4" if plan.policy == "local_sgd" else "sync.staleness=1"
            ]
        if plan.restart:
            return [
                self.paceline, "launch", "-n",
                str(plan.ranks), "--engine", plan.engine, "--restart=3", "--", *words
            ]
        return [*words, "--ranks", str(plan.ranks), "--engine", plan.engine]

    def start(self, resume, mark, limit=None):
        def before():
            if limit is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        environment = {
            **os.environ,
            **MPI_AS_ROOT, processes.MARK: mark,
            "GOMP_SPINCOUNT": "1000",
            "PACELINE_FLIGHT_DIR": str(self.folder / "flight")
        }
        with open(self.folder / "output.txt", "ab") as output:
            return subprocess.Popen([str(word) for word in self.command(resume)], cwd=self.folder, env=environment,
                                    stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                    preexec_fn=before)

    def leg(self, number, leg):
        """Starts the run, disturbs it, and waits for its end; whether it is done."""
        self.leg_began = time.time()
        mark = self.mark = f"{self.seed}-{self.plan.number}-{number}-{os.getpid()}"
        resume = (self.out / "recipe.toml").exists()
        begin_step = max((int(path.name[5:])
                          for path in (self.out / "checkpoints").glob("step-*") if is_whole(path) is None), default=0)
        full = [fault for fault in leg if fault.kind == "full_disk"]
        limit = None
        if full and self.disk.mounted:
            self.disk.resize(self.disk.used() + 64 * 1024 + full[0].seed % (1 << 19))
        elif full:
            limit = 16 * 1024 + full[0].seed % (1 << 18)
        before = (self.folder / "output.txt").stat().st_size if (self.folder / "output.txt").exists() else 0
        process = self.start(resume, mark, limit)
        disturbance = faults.Disturbance(leg, mark, process, self.out, begin_step, self.plan.engine == "server")
        hung = False
        try:
            code = process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            hung, code = True, None
            self.say(processes.stacks(processes.members(mark)))
            self.breaks("hang", f"leg {number} did not end within {PATIENCE_S} s")
            process.kill()
            process.wait()
        disturbance.finish()
        if left := processes.end_all(mark):
            if not hung:
                self.breaks("orphan", f"leg {number} left {left}")
        if full and self.disk.mounted:
            self.disk.resize(faults.SmallDisk.LARGE)
        text = (self.folder / "output.txt").read_bytes()[before:].decode(errors="replace")
        self.say(
            f"---- leg {number}{' --resume' if resume else ''}: "
            f"{'; '.join(map(str, leg)) or 'undisturbed'}\n{text}\ncode {code}, happened: {disturbance.happened}"
        )
        for kind, _ in disturbance.happened:
            self.counts[kind] += 1
        if full and code == 5:
            self.counts["full_disk"] += 1
        if "its samples go to the others" in text or "others take over its samples" in text or any(
                kind == "kill" and victim.startswith("worker") for kind, victim in disturbance.happened):
            self.lost_worker = True
        if not hung:
            self.check_code(number, code, disturbance.happened, bool(full), text)
        return code == 0

    def check_code(self, number, code, happened, full, text):
        killed = [victim for kind, victim in happened if kind == "kill"]
        mended = self.plan.restart and "chief" not in killed
        if code in BUGS:
            self.breaks("code", f"leg {number} ended with {code}: {text[-600:]}")
        elif code != 0 and not full and (not killed or mended):
            self.breaks(
                "code",
                f"leg {number} ended with {code}, and nothing that happened ({happened}) may end a run: {text[-600:]}")

    def check_checkpoints(self, number):
        whole = 0
        for checkpoint in sorted((self.out / "checkpoints").glob("step-*")):
            why = is_whole(checkpoint)
            if why is None:
                whole += 1
                self.damaged.discard(checkpoint.name)  # written anew
            elif checkpoint.name not in self.damaged:
                self.breaks("checkpoint", f"after leg {number} {checkpoint.name} is damaged: {why}")
        if not whole and self.plan.engine != "server" and (made := faults.steps_told(self.out, self.leg_began)) >= 30:
            self.breaks("checkpoint",
                        f"leg {number} made {made} steps, a checkpoint after every tenth, and left no whole one")
        return whole

    def check_eval(self, number):
        done = subprocess.run([self.paceline, "eval", "disk/run"], cwd=self.folder, capture_output=True, text=True,
                              timeout=PATIENCE_S, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            self.breaks("checkpoint",
                        f"after leg {number} paceline eval ended with {done.returncode}: {done.stdout}{done.stderr}")

    def check_end(self):
        summary = json.loads((self.out / "summary.json").read_text())
        if summary["samples"] != draw.SAMPLES * draw.EPOCHS:
            self.breaks("sample", f"{summary['samples']} samples of {draw.SAMPLES * draw.EPOCHS}")
        steps = [
            line["step"] for line in map(json.loads, (self.out / "metrics.jsonl").read_text().splitlines())
            if line["kind"] == "train"
        ]
        if steps != sorted(set(steps)):
            self.breaks("sample", f"lines of metrics do not rise: {steps}")
        if self.plan.engine != "server" and summary["steps"] != draw.STEPS:
            self.breaks("sample", f"{summary['steps']} steps of {draw.STEPS}")

    def bits(self, out):
        return parameters_of(out) if self.plan.engine == "server" else json.loads(
            (out / "summary.json").read_text())["weights_sha256"]

    def check_bits(self, undisturbed):
        if self.plan.engine == "server" and (self.plan.policy != "bsp" or self.lost_worker):
            return
        expected = undisturbed(self)
        self.counts["bits"] += 1
        if expected is not None and (found := self.bits(self.out)) != expected:
            self.breaks("bits", f"{found[:16]} for {expected[:16]} of an undisturbed run")

    def perform(self, undisturbed):
        began = time.monotonic()
        try:
            for number, leg in enumerate(self.plan.legs):
                done = self.leg(number, leg)
                self.check_checkpoints(number)
                for fault in leg:
                    if fault.kind == "damage" and not done:
                        for file in faults.damage(fault, self.out):
                            self.say(f"---- {fault.way}: {file}")
                            self.counts["damage"] += 1
                            self.damaged.add(file.parent.name)
                if done:
                    break
            else:
                number += 1
                if not self.leg(number, ()):
                    raise EOFError(f"leg {number}, which nothing disturbed, did not finish")
                if not self.check_checkpoints(number):
                    self.breaks("checkpoint", "the run left no whole checkpoint")
            self.check_eval(number)
            self.check_end()
            self.check_bits(undisturbed)
        except (EOFError, OSError, ValueError, KeyError, IndexError, subprocess.TimeoutExpired) as failure:
            if not self.broken:
                self.breaks("code", f"what the run left cannot be checked: {failure!r}")
        row = {
            "number": self.plan.number,
            "policy": self.plan.policy,
            "engine": self.plan.engine,
            "seconds": round(time.monotonic() - began, 1),
            "counts": dict(self.counts),
            "broken": self.broken
        }
        if self.broken:
            self.keep.mkdir(parents=True, exist_ok=True)
            (self.keep / "log.txt").write_text(f"{self.plan}\n" + "\n".join(self.log))
            shutil.copytree(self.folder, self.keep / "folder", dirs_exist_ok=True, ignore_dangling_symlinks=True)
        return row

    def close(self):
        """Also in the middle of a leg, when the soak is stopped."""
        if self.mark:
            processes.end_all(self.mark, patience_s=0)
        self.disk.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Undisturbed:
    """What the same run gives when nothing happens: trained once for each way of training, and kept for the soaks to come."""

    def __init__(self, paceline, file):
        self.paceline, self.file = paceline, file
        self.known = json.loads(file.read_text()) if file.exists() else {}

    def __call__(self, disturbed):
        plan = disturbed.plan
        key = f"{plan.policy}/{plan.engine}/{plan.ranks}/{plan.servers}"
        if key not in self.known:
            run = Run(self.paceline, plan, "undisturbed", disturbed.keep)
            try:
                if not run.leg(0, ()):
                    disturbed.breaks("bits", "an undisturbed run did not finish:\n" + "\n".join(run.log))
                else:
                    self.known[key] = run.bits(run.out)
                    self.file.write_text(json.dumps(self.known, indent=1))
            finally:
                run.close()
        return self.known.get(key)


def table(rows, seed):
    lines = ["| policy | over | runs | " + " | ".join(("kills", "stops", "strangers", "full disks", "damaged files")) +
             " | samples lost | hangs | bad checkpoints | other bits | wrong ends | processes left |",
             "| --- | --- |" + " ---: |" * 12]
    cells = sorted({(row["policy"], row["engine"])
                    for row in rows}, key=lambda cell: (cell[1] == "server", cell[0], cell[1]))
    total = collections.Counter()
    for cell in [*cells, None]:
        of_cell = [row for row in rows if cell is None or (row["policy"], row["engine"]) == cell]
        counts = collections.Counter()
        for row in of_cell:
            counts.update(row["counts"])
            counts.update({f"broken {check}": 1 for check, _ in row["broken"]})
        name = f"| {cell[0]} | {cell[1]} |" if cell else "| **all** | |"
        lines.append(f"{name} {len(of_cell)} | " +
                     " | ".join(str(counts[kind]) for kind in ("kill", "stop", "strangers", "full_disk", "damage")) +
                     " | " + " | ".join(str(counts[f"broken {check}"]) for check in CHECKS) + " |")
        total = counts
    failed = [row["number"] for row in rows if row["broken"]]
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True,
                            text=True).stdout.strip()
    processor = next(
        (line.split(": ")[1]
         for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?")
    return (
        f"{len(rows)} runs, seed {seed}, commit {commit}, {os.cpu_count()} cores of an {processor}, "
        f"{sum(row['seconds'] for row in rows) / 60:.0f} minutes. "
        f"Bits were compared in {total['bits']} runs; a disk was full on a "
        f"{'tmpfs' if os.geteuid() == 0 else 'file-size limit (RLIMIT_FSIZE)'}. "
        f"Runs with a broken promise: {', '.join(map(str, failed)) or 'none'}.\n\n" + "\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paceline", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="+", help="these runs again, whether they are in the log or not")
    parser.add_argument("--table", action="store_true", help="the table of what was done so far")
    options = parser.parse_args()
    folder = options.build.resolve() / "soak"
    folder.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell started us in the background
        signal.signal(number, signal.default_int_handler)
    lock = open(folder / ".lock", "w")
    if not options.table:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two soaks at once would take each other's log
    paceline = str(options.paceline.resolve())
    program = hashlib.sha256(pathlib.Path(paceline).read_bytes() + draw.RECIPE.encode()).hexdigest()[:8]
    log = folder / f"seed-{options.seed}-{program}.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    if not options.table:
        undisturbed = Undisturbed(paceline, folder / f"undisturbed-{program}.json")
        done = {row["number"] for row in rows}
        for number in options.only or (number for number in range(options.runs) if number not in done):
            plan = draw.draw(options.seed, number)
            run = Run(paceline, plan, options.seed, folder / f"failed-{options.seed}-{number}")
            try:
                row = run.perform(undisturbed)
            finally:
                run.close()
            rows = [*(old for old in rows if old["number"] != number), row]
            log.write_text("".join(json.dumps(each) + "\n" for each in rows))
            print(
                f"{number}: {plan.policy} over {plan.engine}, {plan.ranks} ranks, {row['seconds']} s, {row['counts']}" +
                "".join(f"\n  {check}: {what}" for check, what in row["broken"]), flush=True)
    rows = [row for row in rows if (row["number"] in options.only if options.only else row["number"] < options.runs)]
    print(table(rows, options.seed))
    return int(any(row["broken"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
