"""Where the processes of a run on one host listen: on loopback alone, or nowhere.

usage: listening_test.py PACELINE
"""

import pathlib
import time
import unittest

from listeners import listeners_of
from paceline_process import ProcessTest

LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")


def below(pid):
    """This process and all that it has started, with their names."""
    found = {}
    try:
        found[pid] = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                found |= below(int(child))
    except OSError:
        pass  # it has just ended
    return found


class ListeningTest(ProcessTest):
    def listeners_of_a_run(self, out, *arguments):
        """{name of the program: addresses}, collected until the run has trained for a while."""
        run = self.start_paceline("train", "small.toml", "--ranks", "2", "--quiet", "--out", out, "--set",
                                  "train.epochs=1000", "--set", "train.log_every_steps=1", *arguments)
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        metrics = self.folder / out / "metrics.jsonl"
        found = {}
        until = time.monotonic() + 60
        while not (metrics.exists() and metrics.read_text().count('"kind":"train"') > 3):
            self.assertIsNone(run.poll(), "it ended too early")
            self.assertLess(time.monotonic(), until, "no step was made")
            for pid, name in below(run.pid).items():
                found.setdefault(name, set()).update(host for host, _ in listeners_of(pid))
            time.sleep(0.02)
        run.terminate()
        run.wait(timeout=60)
        return found

    def test_ranks_over_shared_memory_and_gloo_listen_on_loopback_alone(self):
        for engine in ("shm", "gloo"):
            with self.subTest(engine=engine):
                found = self.listeners_of_a_run(engine, "--engine", engine)
                hosts = set().union(*found.values())
                self.assertTrue(hosts)  # the store, at least
                self.assertLessEqual(hosts, set(LOOPBACK), found)

    def test_ranks_over_mpi_listen_nowhere(self):
        found = self.listeners_of_a_run("mpi", "--engine", "mpi")
        self.assertIn("mpirun", found)
        self.assertEqual(found["paceline"] - set(LOOPBACK), set(), found)  # mpirun's own port is on every address

    def test_servers_and_workers_of_a_run_listen_on_loopback_alone(self):
        found = self.listeners_of_a_run("served", "--set", "sync.policy=bsp", "--set", "sync.servers=2")
        self.assertTrue(found["paceline"])
        self.assertLessEqual(found["paceline"], set(LOOPBACK), found)


if __name__ == "__main__":
    unittest.main()
