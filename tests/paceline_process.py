"""What the process tests share: the program under test, and folders of their own.

A test file is run as: NAME_test.py PATH_OF_PACELINE
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PACELINE = str(pathlib.Path(sys.argv.pop(1)).resolve()) if len(sys.argv) > 1 else "paceline"
SOURCE = pathlib.Path(__file__).resolve().parent.parent
SOAK = os.environ.get("PACELINE_SOAK") == "1"

# A run of milliseconds per step that uses every part: batch normalisation, momentum, schedule, augmentation.
SMALL_RECIPE = """
[model]
name = "small_cnn"
[data]
name = "synthetic"
train_samples = 512
test_samples = 128
channels = 1
image_size = 28
[augment]
crop_padding = 2
flip = true
[batch]
global = 32
[train]
epochs = 6.25  # 100 steps
seed = 7
log_every_steps = 10
[optimizer]
rate = 0.05
momentum = 0.9
weight_decay = 1e-4
[schedule]
name = "cosine"
warmup_epochs = 1
[checkpoint]
every_steps = 10
keep = 3
"""


class ProcessTest(unittest.TestCase):
    """Each test has a folder of its own, self.folder, with small.toml in it; programs run there."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="paceline-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "small.toml").write_text(SMALL_RECIPE)

    def run_paceline(self, *arguments, timeout=120, **options):
        return subprocess.run([PACELINE, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              timeout=timeout, stdin=subprocess.DEVNULL, **options)

    def start_paceline(self, *arguments, **options):
        return subprocess.Popen([PACELINE, *map(str, arguments)], cwd=self.folder, stdin=subprocess.DEVNULL, **options)

    def train(self, out, *arguments, recipe="small.toml", code=0, **options):
        """Trains to the end and returns the summary."""
        result = self.run_paceline("train", recipe, "--out", out, *arguments, **options)
        self.assertEqual(result.returncode, code, result.stderr)
        return self.summary(out)

    def summary(self, out):
        return json.loads((self.folder / out / "summary.json").read_text())

    def metrics(self, out):
        return [json.loads(line) for line in (self.folder / out / "metrics.jsonl").read_text().splitlines()]

    def checkpoints(self, out):
        return sorted(path.name for path in (self.folder / out / "checkpoints").iterdir())

    def expect_private(self, folder):
        """Folder and files, all of them, are their owner's alone."""
        paths = [folder, *folder.rglob("*")]
        self.assertGreater(len(paths), 10)
        for path in paths:
            self.assertEqual(oct(path.stat().st_mode & 0o777), "0o700" if path.is_dir() else "0o600", path)

    def wait_until(self, condition, process, what):
        """Polls; fails when the process ends first."""
        while not condition():
            if process.poll() is not None:
                self.fail(f"the program ended with {process.returncode} before {what}")
