"""The CIFAR-10 recipe trains on real images: a slice of the data set, repeated to files of the published size."""

import sys
import unittest

from paceline_process import SOURCE, ProcessTest

RECORD = 3073
TRAIN, TEST = 400, 100  # records in the slice


class CifarTest(ProcessTest):
    def setUp(self):
        super().setUp()
        data = (SOURCE / "tests/data/cifar10_slice.bin").read_bytes()
        train, test = data[:TRAIN * RECORD], data[TRAIN * RECORD:]
        root = self.folder / "cifar"
        root.mkdir()
        for batch in range(1, 6):
            (root / f"data_batch_{batch}.bin").write_bytes(train * (10000 // TRAIN))
        (root / "test_batch.bin").write_bytes(test * (10000 // TEST))

    def test_the_recipe_learns_a_slice(self):
        summary = self.train("run", "--set", "data.root=cifar", "--set", f"data.train_samples={TRAIN}", "--set",
                             f"data.test_samples={TEST}", "--set", "batch.global=50", "--set", "train.max_steps=112",
                             "--set", "train.log_every_steps=8",
                             "--set", "model.zero_gamma=false",  # learns sooner: docs/results/defaults.md
                             recipe=SOURCE / "recipes/cifar10_resnet20.toml", timeout=300)
        self.assertEqual((summary["model"], summary["parameters"], summary["samples"]), ("resnet20", 272474, 5600))
        losses = [line["loss"] for line in self.metrics("run") if line["kind"] == "train"]
        self.assertLess(losses[-1], losses[0] - 0.3)
        self.assertGreater(summary["test_accuracy"], 0.3)  # 0.1 is chance, give or take 0.03; here it was 0.38


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
