"""Mixed precision and diverging runs, through the program itself."""

import subprocess
import sys
import unittest

from paceline_process import SOURCE, ProcessTest

BF16 = ["--set", "train.precision=bf16", "--set", "precision.loss_scaling=dynamic", "--set", "precision.growth_steps=7"]


class PrecisionTest(ProcessTest):
    def test_bf16_learns_as_f32_and_resumes_bit_for_bit(self):
        f32 = self.train("f32", "--set", "train.diagnose_every_steps=50")
        whole = self.train("whole", *BF16)
        self.assertEqual((f32["precision"], whole["precision"]), ("f32", "bf16"))
        losses = [[line["loss"] for line in self.metrics(run) if line["kind"] == "train"] for run in ("f32", "whole")]
        for window, tolerance in ((0, 0.005),
                                  (1, 0.05)):  # ten steps each; later ones are of a task that is all but solved
            self.assertAlmostEqual(losses[1][window] / losses[0][window], 1, delta=tolerance)
        self.assertGreaterEqual(min(whole["test_accuracy"], f32["test_accuracy"]), 0.99)
        self.assertNotEqual(whole["weights_sha256"], f32["weights_sha256"])
        self.train("cut", *BF16, "--set", "train.max_steps=50")
        cut = self.train("cut", "--resume", *BF16)
        self.assertEqual(cut["weights_sha256"], whole["weights_sha256"])
        scales = [[line["loss_scale"] for line in self.metrics(run) if line["kind"] == "train"]
                  for run in ("cut", "whole")]
        self.assertEqual(scales[0], scales[1])
        self.assertEqual(scales[1][0], 65536 * 2)  # 10 steps: it grew once
        layers = [line for line in self.metrics("f32") if line["kind"] == "layer"]
        self.assertEqual({line["step"] for line in layers}, {50, 100})
        self.assertTrue(all(line["update_norm"] > 0 for line in layers
                            if line["step"] == 50))  # at 100 the rate is nearly 0
        subprocess.run([sys.executable, SOURCE / "tests/read_events.py", self.folder / "f32"], check=True)

    def test_a_run_that_diverges_names_step_and_layer_once(self):
        wild = [
            "--set", "optimizer.rate=1e30", "--set", "schedule.warmup_epochs=0", "--set", "checkpoint.every_steps=1"
        ]
        for ranks in ("1", "2"):
            result = self.run_paceline("train", "small.toml", "--out", "wild" + ranks, "--ranks", ranks, *wild)
            self.assertEqual(result.returncode, 6, result.stderr)
            self.assertEqual(result.stderr.count("the run diverged"), 1, result.stderr)
            self.assertRegex(result.stderr, r"step \d+ \(epoch [0-9.]+\)")
            self.assertRegex(result.stderr,
                             "is the first layer whose output is not finite|is not finite after the update")
            self.assertIn("|weights|", result.stderr)

    def test_f16_on_a_processor_is_refused_with_a_reason(self):
        result = self.run_paceline("train", "small.toml", "--out", "run", "--set", "train.precision=f16")
        self.assertEqual(result.returncode, 3)
        self.assertIn('"f16" needs train.device = "cuda"', result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
