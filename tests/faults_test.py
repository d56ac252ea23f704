"""What goes wrong between ranks, on every engine, with the texts that people read.

usage: faults_test.py GROUP_PROGRAM
"""

import concurrent.futures
import os
import pathlib
import socket
import subprocess
import sys
import time
import unittest

PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
SOAK = os.environ.get("PACELINE_SOAK") == "1"
TIMES, AT_ONCE = (200, 6) if SOAK else (1, 1)
SHORT_S, LONG_S = (4, 40) if SOAK else (1, 10)  # time-outs: those that shall pass, and those that shall not

from listeners import listeners_of  # noqa: E402
from rank_processes import Ranks, run_ranks, run_under_mpirun  # noqa: E402

SAME_ORDER = "every rank must call the same operations in the same order with the same counts and types"
SUM = r"\(sum of 1000 f32, 4000 bytes\)"
PEER = 7  # the exit code: another rank failed


def can_mount():
    return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"],
                          capture_output=True).returncode == 0


class FaultsTest(unittest.TestCase):
    def run_scenario(self, engine, scenario, until=None, timeout_s=LONG_S, size=3):
        """A mismatch or a death is found at once, not at the time-out."""
        began = time.monotonic()
        if engine == "mpi":
            outcomes = run_under_mpirun([PROGRAM, engine, scenario], size, timeout_s=timeout_s)
        else:
            outcomes = run_ranks([PROGRAM, engine, scenario], size, until=until, timeout_s=timeout_s)
        if timeout_s == LONG_S:
            self.assertLess(time.monotonic() - began, LONG_S - 1)
        return outcomes

    def each_engine(self, check, engines=("shm", "gloo", "mpi")):
        """Under soak many times, some at once: ranks that wait for each other need little of the machine."""
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            checks = [(engine, pool.submit(check, engine)) for _ in range(TIMES) for engine in engines]
            for number, (engine, done) in enumerate(checks):
                with self.subTest(engine=engine, number=number):
                    done.result()

    def assert_errors(self, outcomes, ranks, pattern):
        for rank in ranks:
            self.assertRegex(outcomes[rank].error, pattern, outcomes)
            self.assertEqual(outcomes[rank].code, PEER, outcomes)

    def test_a_rank_killed_in_the_middle(self):
        def check(engine):
            outcomes = self.run_scenario(engine, "killed", until=[0, 2])
            if engine == "mpi":  # mpirun ends the others, often before they can say a word
                self.assertNotEqual(outcomes[0].code, 0)
            else:
                self.assert_errors(outcomes, [0, 2],
                                   rf"all_reduce #5[12] {SUM} in group 'world' cannot finish: rank 1 died")
        self.each_engine(check)

    def test_a_rank_that_never_arrives(self):
        def check(engine):
            outcomes = self.run_scenario(engine, "never_arrives", until=[0, 2], timeout_s=SHORT_S)
            self.assert_errors(
                outcomes, [0, 2],
                rf"all_reduce #3 {SUM} in group 'world' did not finish in \d+\.\d s: rank 1 has not arrived "
                rf"\(idle for \d+\.\d s since all_reduce #2 {SUM}\); a rank that is only slow needs a longer "
                r"time-out \(PACELINE_TIMEOUT, in seconds\)")
        self.each_engine(check)

    def test_a_rank_that_never_arrives_at_the_librarys_own_all_reduce(self):
        outcomes = self.run_scenario("gloo", "never_arrives_at_native", until=[0, 2], timeout_s=SHORT_S)
        self.assert_errors(
            outcomes, [0, 2],
            rf"all_reduce #3 {SUM} in group 'world' did not finish in \d+\.\d s: rank 1 has not arrived")
        for rank in (0, 2):
            self.assertEqual(outcomes[rank].err.count("did not finish"), 1, outcomes[rank].err)

    def test_a_rank_that_is_slower_than_the_time_out(self):
        def check(engine):
            outcomes = self.run_scenario(engine, "slow", until=[0, 2], timeout_s=SHORT_S)
            self.assert_errors(outcomes, [0, 2],
                               rf"all_reduce #3 {SUM} in group 'world' did not finish in .* rank 1 has not arrived")
        self.each_engine(check, ["shm", "gloo"])

    def test_a_rank_that_is_stopped_inside_an_operation(self):
        """Each of the others is in the same operation, and none of them knows from that which one does not move."""
        def check(engine):
            outcomes = self.run_scenario(engine, "stopped_inside", until=[0, 2], timeout_s=SHORT_S)
            self.assert_errors(
                outcomes, [0, 2],
                rf"all_reduce #3 {SUM} in group 'world' did not finish in \d+\.\d s: nothing was heard of rank 1 "
                r"for \d+\.\d s(, last in all_reduce #[23] .*)?: the process is stopped, or its host hangs")
        self.each_engine(check)

    def test_rank_0_that_is_stopped_with_its_store(self):
        def check(engine):
            outcomes = self.run_scenario(engine, "first_stopped_inside", until=[1, 2], timeout_s=SHORT_S)
            self.assert_errors(
                outcomes, [1, 2], r"nothing was heard of rank 0 for \d+\.\d s.*: the process is stopped"
                r"|the rendezvous store has said nothing for \d+\.\d s: rank 0 is stopped, or its host hangs")
        self.each_engine(check, ["shm", "gloo"])

    def test_a_rank_at_work_is_waited_for(self):
        def check(engine):
            for scenario, timeout_s in ("at_work", SHORT_S), ("behind_one_at_work", 3 * SHORT_S):
                for outcome in self.run_scenario(engine, scenario, timeout_s=timeout_s):
                    self.assertEqual((outcome.code, outcome.out), (0, "done\n"), outcome)
        self.each_engine(check)

    def test_a_rank_that_is_stopped_at_work_is_found(self):
        def check(engine):
            outcomes = self.run_scenario(engine, "stopped_at_work", until=[0, 2], timeout_s=SHORT_S)
            self.assert_errors(outcomes, [0, 2], r"nothing was heard of rank 1 for \d+\.\d s.*: the process is "
                                                 r"stopped")
        self.each_engine(check)

    def test_another_count_on_one_rank(self):
        def check(engine):
            outcomes = self.run_scenario(engine, "another_count")
            for rank in range(3):
                self.assertRegex(outcomes[rank].error, rf"all_reduce #3 {SUM}")
                self.assertRegex(outcomes[rank].error, r"all_reduce #3 \(sum of 999 f32, 3996 bytes\)")
                self.assertRegex(outcomes[rank].error,
                                 r"rank 1 called|ranks? (0|2|0 and 2) called")  # who is not there yet is not named
                self.assertIn(SAME_ORDER, outcomes[rank].error)
        self.each_engine(check)

    def test_another_order_on_one_rank(self):
        def check(engine):
            outcomes = self.run_scenario(engine, "another_order")
            for rank in range(3):
                self.assertRegex(outcomes[rank].error, rf"all_reduce #3 {SUM}")
                self.assertRegex(outcomes[rank].error, r"broadcast #3 \(1000 f32, 4000 bytes, from rank 0\)")
                self.assertIn(SAME_ORDER, outcomes[rank].error)
        self.each_engine(check)

    def test_another_type_on_one_rank(self):
        def check(engine):
            outcomes = self.run_scenario(engine, "another_type")
            for rank in range(3):
                self.assertRegex(outcomes[rank].error, r"all_reduce #3 \(sum of 1000 i32, 4000 bytes\)")
                self.assertIn(SAME_ORDER, outcomes[rank].error)
        self.each_engine(check)

    def test_what_killed_ranks_left_in_shared_memory_is_removed_by_the_next_start(self):
        ranks = Ranks([PROGRAM, "shm", "never_arrives"], 2, timeout_s=30)
        try:
            while not ranks.shared_memory_files():
                self.assertIsNone(ranks.processes[0].poll(), "ended too early")
            ranks.wait(until=[])  # kills all
            self.assertNotEqual(ranks.shared_memory_files(), [])
            run_ranks([PROGRAM, "shm", "where"], 2)
            self.assertEqual(ranks.shared_memory_files(), [])
        finally:
            ranks.close()

    def test_a_rank_that_leaves_early(self):
        def check(engine):
            outcomes = self.run_scenario(engine, "leaves_early")
            self.assertEqual(outcomes[1].code, 0)
            self.assert_errors(outcomes, [0, 2],
                               rf"all_reduce #3 {SUM} in group 'world' cannot finish: rank 1 left the group after")
        self.each_engine(check, ["shm", "gloo"])

    def test_the_rank_with_its_own_error_keeps_its_exit_code(self):
        def check(engine):
            outcomes = self.run_scenario(engine, "throws")
            self.assertEqual((outcomes[1].code, outcomes[1].error), (4, "the disk is gone"))
            self.assert_errors(outcomes, [0, 2], "rank 1 left the group after")
        self.each_engine(check, ["shm", "gloo"])

    def test_a_wrong_secret(self):
        outcomes = run_ranks([PROGRAM, "shm", "where"], 2, timeout_s=2, of_rank={1: {"PACELINE_SECRET": "guessed"}})
        self.assert_errors(outcomes, [1], "secret")
        self.assert_errors(outcomes, [0], "rank 1 did not come")
        for outcome in outcomes:
            self.assertNotIn("known to all", outcome.err + outcome.out)
            self.assertNotIn("guessed", outcome.err + outcome.out)

    def test_a_stranger_that_connects_first_does_not_become_a_rank(self):
        """Rank 0 waits for rank 1 to connect; a stranger comes first, to every port that is open, and stays."""
        ranks = Ranks([PROGRAM, "shm", "late_to_a_gloo_group"], 2, timeout_s=30, stdin=subprocess.PIPE)
        lines, told = {}, {}
        try:
            while len(lines) < 2:  # the store's port, and that for rank 1
                self.assertIsNone(ranks.processes[0].poll(), "ended too early")
                for place in listeners_of(ranks.processes[0].pid) - set(lines):
                    lines[place] = socket.create_connection(place)
                    lines[place].sendall(bytes(8))
            ranks.processes[1].stdin.write("go on\n")
            ranks.processes[1].stdin.flush()
            for place, line in lines.items():
                line.settimeout(60)
                told[place] = b""
                while data := line.recv(1 << 16):
                    told[place] += data
            outcomes = ranks.wait()
        finally:
            for line in lines.values():
                line.close()
            ranks.close()
        for outcome in outcomes:
            self.assertEqual(outcome.code, 0, outcome)
            self.assertIn("sums right", outcome.out)
        for place, text in told.items():
            self.assertEqual(place[0], "127.0.0.1", "a run on one host listens on the loopback alone")
            self.assertLessEqual(len(text), 80, f"more than a challenge was sent to {place}")

    def test_a_port_in_use(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = str(other.getsockname()[1])
            outcomes = run_ranks([PROGRAM, "shm", "where"], 2, timeout_s=2, until=[0], MASTER_PORT=port)
        self.assert_errors(outcomes, [0], f"port {port} at 127.0.0.1 is in use")

    def test_a_host_that_does_not_resolve(self):
        outcomes = run_ranks([PROGRAM, "shm", "where"], 2, timeout_s=2, MASTER_ADDR="nowhere.invalid")
        self.assert_errors(outcomes, [0, 1], "nowhere.invalid")

    def test_a_rank_that_is_not_started(self):
        outcomes = run_ranks([PROGRAM, "shm", "where"], 2, timeout_s=1, WORLD_SIZE="4")
        self.assert_errors(outcomes, [0, 1], "ranks 2 and 3 did not come to the rendezvous at 127.0.0.1:")

    @unittest.skipUnless(can_mount(), "needs the right to mount")
    def test_shared_memory_that_is_full(self):
        """On a real, small file system, in a mount namespace of its own."""
        keeper = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=16k tmpfs /dev/shm && echo ready && read _"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(keeper.stdout.readline(), "ready\n")
            outcomes = run_ranks(
                [PROGRAM, "shm", "sums"], 2,
                prefix_of_rank=lambda rank: ["nsenter", "-m", "-t", str(keeper.pid)])
        finally:
            keeper.communicate("\n")
        self.assertIn(5, [outcome.code for outcome in outcomes], outcomes)
        for outcome in outcomes:
            self.assertIn(outcome.code, (5, PEER), outcome)
            if outcome.code == 5:
                self.assertRegex(outcome.error,
                                 r"/dev/shm is full: 0 MB of shared memory were asked for, 0 MB are free; remove what")

    def test_more_than_shared_memory_holds(self):
        outcomes = run_ranks([PROGRAM, "shm", "too_much_memory"], 2)
        for outcome in outcomes:
            self.assertEqual(outcome.code, 5, outcome)
            self.assertRegex(outcome.error,
                             r"/dev/shm is full: \d+ MB of shared memory were asked for, \d+ MB are free; remove what")


if __name__ == "__main__":
    unittest.main()
