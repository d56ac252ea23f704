"""What is done to a run: each fault waits for its moment and then happens, on a thread of its own."""

import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import threading
import time

import draw
import processes


def steps_told(run, since):
    """How many steps a run has told of since that time; 0 where it has told of none."""
    metrics = run / "metrics.jsonl"
    try:
        if metrics.stat().st_mtime < since:
            return 0
        return max((json.loads(line)["step"] for line in metrics.read_text().splitlines() if line.endswith("}")),
                   default=0)
    except (FileNotFoundError, ValueError):
        return 0


class Disturbance:
    """The faults of one leg. `happened` are those that took effect, as (kind, victim)."""

    def __init__(self, faults, mark, process, run, begin_step, served):
        self.mark, self.process, self.run, self.begin_step, self.served = mark, process, run, begin_step, served
        self.began = time.time()
        self.over = threading.Event()
        self.happened = []
        self.threads = [
            threading.Thread(target=self.wait_and_do, args=(fault, ), daemon=True) for fault in faults
            if hasattr(self, fault.kind)
        ]
        for thread in self.threads:
            thread.start()

    def finish(self):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def wait_and_do(self, fault):
        moment, delay = min(self.begin_step + fault.at_step, draw.STEPS - 30), fault.after_s
        # the chief looks now and then, and updates are no steps: from its first line on, as long as so many steps
        # take
        if self.served:
            moment, delay = 1, fault.after_s + fault.at_step / draw.STEPS * draw.SECONDS
        while fault.at_step and not self.over.is_set() and steps_told(self.run, self.began) < moment:
            time.sleep(0.01)
        if not self.over.wait(delay):
            getattr(self, fault.kind)(fault)

    def signal(self, victim, number):
        pid = processes.find(self.mark, self.process.pid, victim)
        try:
            if pid is None:
                return None
            os.kill(pid, number)
            return pid
        except ProcessLookupError:
            return None

    def kill(self, fault):
        until = time.monotonic() + 30  # it may not have been started yet
        while not self.over.is_set() and time.monotonic() < until:
            if self.signal(fault.victim, signal.SIGKILL):
                self.happened.append(("kill", fault.victim))
                return
            time.sleep(0.02)

    def stop(self, fault):
        pid = self.signal(fault.victim, signal.SIGSTOP)
        if pid is None:
            return
        self.happened.append(("stop", fault.victim))
        time.sleep(fault.for_s)  # also when the run is over: it must go on to end
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def strangers(self, fault):
        """At every port of the run: some say nothing, some talk nonsense, some break off in the middle."""
        chance, until, open_sockets, count = random.Random(fault.seed), time.monotonic() + fault.for_s, [], 0
        while not self.over.is_set() and time.monotonic() < until:
            for port in processes.listening_ports(processes.members(self.mark)):
                for _ in range(chance.randrange(1, 8)):
                    try:
                        stranger = socket.create_connection(("127.0.0.1", port), timeout=1)
                        stranger.setblocking(False)
                        stranger.send(
                            chance.choice([
                                b"",
                                chance.randbytes(chance.randrange(1, 200)),
                                bytes(8), b"\1" + bytes(7), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                                b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64
                            ]))
                        count += 1
                        open_sockets.append(stranger) if chance.random() < 0.5 else stranger.close()
                    except OSError:
                        pass
            self.over.wait(0.1)
        for stranger in open_sockets:
            stranger.close()
        if count:
            self.happened.append(("strangers", str(count)))


def damage(fault, run):
    """A file of the newest checkpoint, or of each. Returns the files."""
    chance = random.Random(fault.seed)
    folders = sorted(path for path in (run / "checkpoints").glob("step-*") if path.name.removeprefix("step-").isdigit())
    damaged = []
    for folder in folders if fault.everywhere else folders[-1:]:
        file = chance.choice(sorted(path for path in folder.iterdir() if path.stat().st_size > 0))
        size = file.stat().st_size
        if fault.way == "empty":
            os.truncate(file, 0)
        elif fault.way == "cut":
            os.truncate(file, chance.randrange(size))
        else:
            flip(file, chance.randrange(size), 1 << chance.randrange(8))
        damaged.append(file)
    return damaged


def flip(file, place, bits):
    with open(file, "r+b") as opened:
        opened.seek(place)
        byte = opened.read(1)[0]
        opened.seek(place)
        opened.write(bytes([byte ^ bits]))


class SmallDisk:
    """A file system of its own for a run's folder, which can be full: a tmpfs, where the soak may mount one (as root)."""
    LARGE = 64 << 20

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        self.mounted = os.geteuid() == 0 and self.mount(self.LARGE)

    def mount(self, size, remount=""):
        return subprocess.run(["mount", "-t", "tmpfs", "-o", f"{remount}size={size}", "tmpfs", self.folder],
                              capture_output=True).returncode == 0

    def resize(self, size):
        self.mount(size, "remount,")

    def used(self):
        found = os.statvfs(self.folder)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def close(self):
        if self.mounted:
            subprocess.run(["umount", "-l", self.folder], capture_output=True)
