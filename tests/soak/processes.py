"""The processes of one run: found by a mark in their environment, whoever started them."""

import os
import pathlib
import signal
import subprocess
import time

MARK = "PACELINE_SOAK_RUN"


def environment_of(pid):
    try:
        entries = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return dict(entry.decode(errors="replace").split("=", 1) for entry in entries if b"=" in entry)


def arguments_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def members(mark):
    """The processes of the run that live, with their environments."""
    assert mark  # or it would be all processes without one
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        environment = environment_of(folder.name)
        if environment.get(MARK) == mark and is_alive(folder.name):
            found[int(folder.name)] = environment
    return found


def find(mark, root, victim):
    """The process that a fault is about; None: it is not there (yet, or any more)."""
    if victim == "chief":
        return root if is_alive(root) else None
    role, number = victim.split()
    for pid, environment in members(mark).items():
        if pid == root:
            continue
        words = arguments_of(pid)
        if role == "server":
            if "serve" in words and any(word.startswith(f"{number}/") for word in words):
                return pid
        elif "serve" not in words and (environment.get("PACELINE_WORKER") == number if role == "worker" else number
                                       in (environment.get("PACELINE_RANK"), environment.get("OMPI_COMM_WORLD_RANK"))):
            if any(word.endswith("paceline") for word in words[:1]):
                return pid
    return None


def listening_ports(pids):
    """TCP ports at which these processes listen."""
    inodes = set()
    for pid in pids:
        try:
            for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                target = os.readlink(descriptor)
                if target.startswith("socket:["):
                    inodes.add(target[8:-1])
        except OSError:
            pass
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = [line.split() for line in pathlib.Path(table).read_text().splitlines()[1:]]
        except OSError:
            continue
        ports |= {int(row[1].rsplit(":", 1)[1], 16) for row in rows if row[3] == "0A" and row[9] in inodes}
    return sorted(ports)


def stacks(pids):
    """Where each process is, of all threads: by gdb where there is one, else what the kernel says."""
    texts = []
    for pid in pids:
        texts.append(f"==== {pid}: {' '.join(arguments_of(pid))}")
        try:
            done = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 12"],
                                  capture_output=True, text=True, timeout=60)
            texts.append(done.stdout)
        except (OSError, subprocess.TimeoutExpired):
            for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
                try:
                    texts.append(
                        f"{task.name}: {(task / 'wchan').read_text()} {(task / 'stat').read_text().split(')')[1][:3]}")
                except OSError:
                    pass
    return "\n".join(texts)


def end_all(mark, patience_s=10):
    """Waits until the run has no processes; returns those that had to be killed."""
    until = time.monotonic() + patience_s
    while (left := members(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    told = [f"{pid}: {' '.join(arguments_of(pid))}" for pid in left]
    for pid in left:
        for number in (signal.SIGKILL, signal.SIGCONT):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
    return told
