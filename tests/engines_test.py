"""Every engine with real processes: right sums, the same bits on every rank and in two runs, no core burnt while waiting.

usage: engines_test.py GROUP_PROGRAM
"""

import pathlib
import sys
import unittest

PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())

from rank_processes import run_ranks, run_under_mpirun  # noqa: E402


def run(engine, size, scenario):
    if engine.endswith("mpi"):
        return run_under_mpirun([PROGRAM, engine, scenario], size)
    return run_ranks([PROGRAM, engine, scenario], size)


class EnginesTest(unittest.TestCase):
    def sums(self, engine, size):
        outcomes = run(engine, size, "sums")
        self.assertEqual([outcome.code for outcome in outcomes], [0] * size, outcomes)
        lines = {outcome.out for outcome in outcomes}
        self.assertEqual(len(lines), 1, "the same bits on every rank")
        return lines.pop()

    def test_every_rank_holds_the_right_sum_with_the_same_bits_in_two_runs(self):
        for engine in ("shm", "gloo", "mpi"):
            for size in (2, 3, 4):
                with self.subTest(engine=engine, size=size):
                    self.assertRegex(self.sums(engine, size), "^sums right, bits [0-9a-f]{64}\n$")
            self.assertEqual(self.sums(engine, 4), self.sums(engine, 4))

    def test_the_engine_is_found(self):
        """Without being told: shared memory on one host, also under mpirun."""
        for outcomes in (run("auto", 2, "where"), run_under_mpirun([PROGRAM, "auto", "where"], 2)):
            self.assertEqual(outcomes[1].out, "rank 1 of 2 on host 0 of 1, engine shm\n", outcomes)

    def test_one_rank_alone_needs_nobody(self):
        outcomes = run_ranks([PROGRAM, "auto", "where"], 1, WORLD_SIZE="1")
        self.assertEqual(outcomes[0].code, 0, outcomes)

    def processor_ms_while_waiting(self, engine):
        outcomes = run(engine, 2, "idle")  # rank 1 comes a second late
        self.assertEqual([outcome.code for outcome in outcomes], [0, 0], outcomes)
        return int(outcomes[0].out.split()[1])

    def test_a_rank_that_waits_does_not_spin(self):
        """The least of up to three tries: a virtual machine counts time that others took from it as its own."""
        for engine in ("shm", "gloo", "mpi"):
            with self.subTest(engine=engine):
                tries = (self.processor_ms_while_waiting(engine) for _ in range(3))
                self.assertTrue(any(used < 250 for used in tries), "a quarter of a second of waiting was work, three times")


if __name__ == "__main__":
    unittest.main()
