"""A program with a model of its own has the whole command line (examples/own_command_line.cc).

usage: command_line_test.py PACELINE OWN_PROGRAM
"""

import json
import pathlib
import subprocess
import sys
import unittest

OWN = str(pathlib.Path(sys.argv.pop(2)).resolve())

from paceline_process import ProcessTest  # noqa: E402: it takes the first argument

MINE = """
[model]
name = "my_mlp"
[data]
name = "synthetic"
train_samples = 256
test_samples = 64
channels = 1
image_size = 8
[batch]
global = 32
[train]
epochs = 2
threads = 1
"""


class CommandLineTest(ProcessTest):
    def own(self, *arguments, code=0):
        result = subprocess.run([OWN, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                                timeout=120)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def setUp(self):
        super().setUp()
        (self.folder / "mine.toml").write_text(MINE)

    def test_trains_evaluates_and_goes_on(self):
        for name, ranks in (("one", 1), ("two", 2)):
            with self.subTest(ranks=ranks):
                whole = json.loads(
                    self.own("train", "mine.toml", "--ranks", ranks, "--out", name, "--json", "--quiet").stdout)
                self.assertEqual((whole["model"], whole["ranks"], whole["epochs"]), ("my_mlp", ranks, 2.0))
                self.assertEqual(json.loads(self.own("eval", name, "--json").stdout)["weights_sha256"],
                                 whole["weights_sha256"])
                self.own("train", "mine.toml", "--ranks", ranks, "--out", name + "-cut", "--set", "train.max_steps=8",
                         "--quiet")
                resumed = json.loads(
                    self.own("train", "mine.toml", "--ranks", ranks, "--out", name + "-cut", "--resume", "--json",
                             "--quiet").stdout)
                self.assertEqual(resumed["weights_sha256"], whole["weights_sha256"])

    def test_trains_on_a_parameter_server_that_it_starts(self):
        summary = json.loads(
            self.own("train", "mine.toml", "--set", "sync.policy=bsp", "--ranks", 2, "--out", "served", "--json",
                     "--quiet").stdout)
        self.assertEqual((summary["model"], summary["samples"]), ("my_mlp", 512))

    def test_knows_its_model_everywhere(self):
        self.assertIn("my_mlp", self.own("models").stdout)
        self.assertIn("my_mlp", self.own("explain", "step", "mine.toml", "--ranks", 4).stdout)

    def test_fails_as_paceline_does(self):
        self.own("train", "mine.toml", "--out", "run", "--quiet")
        self.assertIn("holds", self.own("train", "mine.toml", "--out", "run", code=2).stderr)
        self.assertIn("did you mean 'my_mlp'?",
                      self.own("train", "mine.toml", "--set", "model.name=my_mpl", code=3).stderr)
        # The program without that model says so.
        self.assertIn("there is no model 'my_mlp'", self.run_paceline("eval", "run").stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
