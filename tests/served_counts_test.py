"""What runs on a parameter server count and record, by policy: steps, samples, times, the lines of metrics.

usage: served_counts_test.py PACELINE
"""

import itertools
import unittest

from paceline_process import ProcessTest
from served_runs import SMALL

SAMPLES, EPOCHS, WORKERS = 2000, 2, 4
BATCHES = 32  # of 64 samples in an epoch; the last has 16
SHARE = 16
RECIPE = SMALL.replace("epochs = 1", f"epochs = {EPOCHS}\nlog_every_steps = 10\nseed = 3") + """
[optimizer]
rate = 0.02
"""


class ServedCountsTest(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "r.toml").write_text(RECIPE)

    def train_with(self, policy, *more):
        """Returns the summary, the table, what was shown meanwhile, and the lines of metrics."""
        done = self.run_paceline("train", "r.toml", "--ranks", WORKERS, "--out", policy, "--set",
                                 f"sync.policy={policy}", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.summary(policy)["samples"], SAMPLES * EPOCHS)
        return self.summary(policy), done.stdout, done.stderr, self.metrics(policy)

    def check_lines(self, summary, shown, lines):
        train, test = ([line for line in lines if line["kind"] == kind] for kind in ("train", "test"))
        self.assertGreater(len(train), 0)  # a quick run has few: the chief looks five times a second
        for before, after in itertools.pairwise(train):
            self.assertLess(before["step"], after["step"])
            self.assertNotEqual(before["loss"], after["loss"])  # each window has its own
        # One clock: of two lines the later one is not of an earlier epoch, whatever was done in between.
        by_time = sorted(train + test, key=lambda line: (line["seconds"], line["epoch"]))
        self.assertEqual([line["epoch"] for line in by_time], sorted(line["epoch"] for line in by_time))
        self.assertEqual((test[-1]["step"], test[-1]["epoch"]), (summary["steps"], EPOCHS))
        self.assertEqual(test[-1]["seconds"], summary["train_seconds"])
        self.assertEqual(train[-1]["loss"], summary["train_loss"])
        # Every sample is in one worker's count.
        last = {line["worker"]: line for line in lines if line["kind"] == "worker"}
        self.assertEqual(sum(line["samples"] for line in last.values()), SAMPLES * EPOCHS)
        for line in last.values():
            self.assertAlmostEqual(line["rate"], 0.02, places=7)
        self.assertNotIn("-1.0", shown)  # no stand-in for a loss that is not known yet

    def test_bsp_makes_a_step_of_every_batch(self):
        summary, table, shown, lines = self.train_with("bsp")
        self.assertEqual((summary["steps"], summary["step_samples"]), (BATCHES * EPOCHS, 64))
        self.assertIn(f"steps         {BATCHES * EPOCHS} of 64 samples\n", table)
        self.assertIn(f"/{BATCHES * EPOCHS}  loss", shown)
        self.check_lines(summary, shown, lines)

    def test_asynchronous_policies_make_a_step_of_every_share(self):
        for policy in ("asp", "ssp"):
            with self.subTest(policy=policy):
                summary, table, shown, lines = self.train_with(policy)
                self.assertEqual((summary["steps"], summary["step_samples"]), (WORKERS * BATCHES * EPOCHS, SHARE))
                self.assertIn(f"steps         {WORKERS * BATCHES * EPOCHS} of {SHARE} samples\n", table)
                self.check_lines(summary, shown, lines)

    def test_steps_of_as_many_gradients_as_come_are_told_by_their_mean(self):
        for policy in ("k_sync", "adaptive_k", "drop_worker"):
            with self.subTest(policy=policy):
                summary, table, shown, lines = self.train_with(policy, "--set", "sync.slowdown=[2]")
                mean = round(SAMPLES * EPOCHS / summary["steps"])
                self.assertEqual(summary["step_samples"], mean)
                self.assertIn(f"steps         {summary['steps']} of {mean} samples on average\n", table)
                self.assertNotRegex(shown, r"step +\d+/")  # how many there will be is not known
                self.check_lines(summary, shown, lines)

    def test_elastic_averaging_counts_the_steps_of_its_workers(self):
        summary, table, shown, lines = self.train_with("easgd")
        steps = SAMPLES * EPOCHS // SHARE
        self.assertEqual((summary["steps"], summary["step_samples"]), (steps, SHARE))
        self.assertIn(f"steps         {steps} of {SHARE} samples\n", table)
        self.assertRegex(shown, rf"step {steps}  loss")
        self.check_lines(summary, shown, lines)

    def test_the_summary_says_how_the_run_was_made_and_that_it_evaluates_beside_training(self):
        summary, table, _, _ = self.train_with("bsp")
        self.assertEqual([summary[key] for key in ("policy", "optimizer", "rate", "seed")], ["bsp", "sgd", 0.02, 3])
        self.assertRegex(table, r"time +\S+ s training, \S+ s evaluating meanwhile\n")
        alone = self.train("alone", recipe="r.toml")
        self.assertEqual([alone[key] for key in ("policy", "optimizer", "rate", "seed", "step_samples")],
                         ["allreduce", "sgd", 0.02, 3, 64])


if __name__ == "__main__":
    unittest.main()
