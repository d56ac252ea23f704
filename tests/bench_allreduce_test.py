"""`paceline bench allreduce` and `paceline profile`: real processes, real peers, small sizes. No timing bars here.

usage: bench_allreduce_test.py PATH_OF_PACELINE
"""

import json
import os
import shutil
import tempfile
import unittest

from paceline_process import PACELINE, ProcessTest
from rank_processes import MPI_AS_ROOT

KEYS = {"engine", "algorithm", "ranks", "bytes", "microseconds", "bus_gbps", "max_error"}
ON_ONE_HOST = {"ring", "recursive_doubling", "halving_doubling", "torus2d", "direct", "direct_eager"}
HAS_MPIRUN = shutil.which("mpirun") is not None


class BenchTest(ProcessTest):

    @classmethod
    def setUpClass(cls):
        cls.profiles = tempfile.TemporaryDirectory(prefix="paceline-test-")  # of all tests: measuring takes seconds
        cls.addClassCleanup(cls.profiles.cleanup)

    def setUp(self):
        super().setUp()
        self.environment = {
            **os.environ,
            **MPI_AS_ROOT, "PACELINE_PROFILE_DIR": self.profiles.name,
            "PACELINE_FLIGHT_DIR": str(self.folder)
        }

    def run_command(self, *arguments, code=0):
        result = self.run_paceline(*arguments, env=self.environment)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def bench(self, *arguments):
        """The rows, and what was printed."""
        result = self.run_command("bench", "allreduce", "--trials", 2, "--json", "rows.json", *arguments)
        report = json.loads((self.folder / "rows.json").read_text())
        for row in report["rows"]:
            self.assertLessEqual(KEYS, set(row))
            self.assertGreater(row["microseconds"], 0)
            self.assertLessEqual(row["max_error"], row["ranks"] * 2**-24)
            bus = 2 * (row["ranks"] - 1) / row["ranks"] * row["bytes"] / row["microseconds"] * 1e-3
            self.assertAlmostEqual(row["bus_gbps"], bus, delta=1e-6 * bus)
        self.assertLessEqual({"version", "engine", "ranks", "cores", "processor", "trials"}, set(report["environment"]))
        return report["rows"], result.stdout

    def test_measures_every_algorithm_and_the_hybrid(self):
        rows, text = self.bench("--bytes", "1KiB,64K")
        self.assertEqual({row["engine"] for row in rows}, {"shm"})
        self.assertEqual({row["ranks"] for row in rows}, {2})
        self.assertEqual({row["bytes"] for row in rows}, {1024, 64000})
        self.assertEqual({row["algorithm"] for row in rows}, ON_ONE_HOST | {"hybrid"})
        for row in rows:
            self.assertEqual("chose" in row, row["algorithm"] == "hybrid")
        self.assertIn("profile-shm-2x1.json", os.listdir(self.profiles.name))
        self.assertEqual(text.count("All-reduce (f32, sum)"), 1)  # rank 0 alone prints

    @unittest.skipUnless(HAS_MPIRUN, "needs mpirun")
    def test_measures_peers_in_the_same_run(self):
        for ranks in (2, 4):
            rows, text = self.bench("--ranks", ranks, "--bytes", "1KiB,16KiB", "--algorithm", "hybrid,direct",
                                    "--peers", "openmpi,gloo")
            found = {(row["engine"], row["algorithm"]) for row in rows}
            self.assertEqual(found, {("shm", "hybrid"), ("shm", "direct"), ("openmpi", "native"),
                                     ("gloo-library", "native")})
            self.assertEqual(len(rows), 8)
            self.assertEqual({row["ranks"] for row in rows}, {ranks})
            self.assertRegex(text.splitlines()[-1],
                             "geometric mean|^No comparison: the times scatter too much")  # on a busy machine

    def test_other_engines_have_their_own_all_reduce_too(self):
        algorithms = {"gloo": ("hybrid", "native", "ring")}
        if HAS_MPIRUN:
            algorithms["mpi"] = ("native", "ring")  # the hybrid measures a profile first: once is enough
        for engine, names in algorithms.items():
            rows, _ = self.bench("--engine", engine, "--bytes", "4K", "--algorithm", ",".join(names))
            self.assertEqual({(row["engine"], row["algorithm"]) for row in rows}, {(engine, name) for name in names})

    def test_runs_on_ranks_that_were_started_already(self):
        launched = self.run_command("launch", "-n", 3, "--no-prefix", "--", PACELINE, "bench", "allreduce", "--bytes",
                                    "4", "--algorithm", "ring", "--trials", 1)
        self.assertIn("over 3 ranks, engine shm", launched.stdout)
        wrong = self.run_command("launch", "-n", 2, "--", PACELINE, "bench", "allreduce", "--ranks", 4, code=2)
        self.assertIn("--ranks 4, but 2 were started", wrong.stderr)

    def test_says_what_is_wrong_with_the_arguments(self):

        def refusal(*arguments):
            return self.run_command("bench", "allreduce", *arguments, code=2).stderr

        self.assertIn("did you mean 'ring'", refusal("--algorithm", "rong"))
        self.assertIn("native does not apply to engine shm", refusal("--algorithm", "native"))
        self.assertIn("'64Q' is no size", refusal("--bytes", "64Q"))
        self.assertIn("multiples of 4", refusal("--bytes", "1001"))
        self.assertIn("there is no peer 'nccl'", refusal("--peers", "nccl"))

    def test_profile_measures_once_and_explain_shows_it(self):
        self.environment["PACELINE_PROFILE_DIR"] = str(self.folder / "profiles")
        explain = ("explain", "allreduce", "--platform", "shm", "--ranks", 2, "--bytes", "1KiB", "--json")

        def measured():
            return [row["measured_seconds"] for row in json.loads(self.run_command(*explain).stdout)["candidates"]]

        self.assertEqual(set(measured()), {None})
        first = self.run_command("profile", "--ranks", 2)
        self.assertIn("measured now", first.stdout)
        self.assertIn("The plan:", first.stdout)
        self.assertIn("measured before", self.run_command("profile", "--ranks", 2).stdout)
        # A candidate that seemed hopelessly slow at first is left out; which that is depends on what disturbs the
        # machine.
        times = [seconds for seconds in measured() if seconds is not None]
        self.assertGreaterEqual(len(times), 2)
        self.assertTrue(all(seconds > 0 for seconds in times))


if __name__ == "__main__":
    unittest.main()
