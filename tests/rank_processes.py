"""Ranks as real processes, started as torchrun, mpirun or an impatient user would start them."""

import itertools
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time

MPI_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
PATIENCE_S = 60  # a test that hangs fails after this long
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Outcome:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def error(self):
        """The line that the program ended with."""
        lines = [
            line for line in self.err.splitlines()
            if line.startswith("paceline: ") and "the last operations are in" not in line
        ]
        return lines[-1][len("paceline: "):] if lines else ""

    def __repr__(self):
        return f"Outcome(code={self.code}, out={self.out!r}, err={self.err!r})"


_runs = itertools.count()


class Ranks:
    """`size` processes of one program. Environment per rank: `of_rank[rank]`."""

    def __init__(self, command, size, timeout_s=10, of_rank=None, prefix_of_rank=lambda rank: (),
                 stdin=subprocess.DEVNULL, patience_s=PATIENCE_S, **environment):
        self.patience_s = patience_s
        self.folder = tempfile.mkdtemp(prefix="paceline-flight-")
        self.name = f"test{os.getpid()}x{next(_runs)}"  # as torchrun names a run; its shared memory carries that name
        port = environment.pop("MASTER_PORT", None) or str(free_port())
        self.processes = []
        for rank in range(size):
            settings = {
                **os.environ, "RANK": str(rank),
                "WORLD_SIZE": str(size),
                "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": str(size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "TORCHELASTIC_RUN_ID": self.name,
                "PACELINE_SECRET": "known to all",
                "PACELINE_TIMEOUT": str(timeout_s),
                "PACELINE_FLIGHT_DIR": self.folder,
                **environment,
                **(of_rank or {}).get(rank, {})
            }
            self.processes.append(
                subprocess.Popen([*prefix_of_rank(rank), *map(str, command)], env=settings, stdin=stdin,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

    def wait(self, until=None):
        """Waits for the ranks of `until` (all), ends the others, and returns all outcomes."""
        outcomes = {}
        deadline = time.monotonic() + self.patience_s
        try:
            for rank in until if until is not None else range(len(self.processes)):
                out, err = self.processes[rank].communicate(timeout=max(0.1, deadline - time.monotonic()))
                outcomes[rank] = Outcome(self.processes[rank].returncode, out, err)
        finally:
            for rank, process in enumerate(self.processes):
                if rank not in outcomes:
                    process.kill()
                    out, err = process.communicate()
                    outcomes[rank] = Outcome(process.returncode, out, err)
        return [outcomes[rank] for rank in range(len(self.processes))]

    def shared_memory_files(self):
        """What this run has left in /dev/shm."""
        return [name for name in os.listdir("/dev/shm") if f"_{self.name}_" in name]

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def run_ranks(command, size, until=None, **options):
    """All must be gone from /dev/shm afterwards, unless ranks that were still alive had to be killed."""
    ranks = Ranks(command, size, **options)
    try:
        outcomes = ranks.wait(until)
        left = ranks.shared_memory_files()
        if until is None and left:
            raise AssertionError(f"left in /dev/shm: {left}; {outcomes}")
        return outcomes
    finally:
        ranks.close()


def run_under_mpirun(command, size, timeout_s=10, **environment):
    """The outcomes of the ranks; mpirun does not tell each one's exit code: it is mpirun's own for all."""
    folder = tempfile.mkdtemp(prefix="paceline-flight-")
    settings = {
        **os.environ,
        **MPI_AS_ROOT, "PACELINE_TIMEOUT": str(timeout_s),
        "PACELINE_FLIGHT_DIR": folder,
        **environment
    }
    try:
        result = subprocess.run(["mpirun", "--oversubscribe", "--tag-output", "-n",
                                 str(size), *map(str, command)], env=settings, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=PATIENCE_S)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    texts = {(rank, stream): "" for rank in range(size) for stream in ("stdout", "stderr")}
    for line in (result.stdout + result.stderr).splitlines():
        if tag := re.match(r"\[\d+,(\d+)\]<(stdout|stderr)>:\s?(.*)", line):
            texts[int(tag[1]), tag[2]] += tag[3] + "\n"
    return [Outcome(result.returncode, texts[rank, "stdout"], texts[rank, "stderr"]) for rank in range(size)]
