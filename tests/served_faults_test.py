"""What a run on a parameter server does where the machine lets it down: a damaged checkpoint, too little memory.

usage: served_faults_test.py PACELINE
"""

import resource
import signal
import subprocess
import unittest

from paceline_process import ProcessTest
from served_runs import SMALL

BSP = ["--set", "sync.policy=bsp", "--set", "sync.servers=2", "--ranks", "2"]


class ServedFaultsTest(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "r.toml").write_text(SMALL.replace("train_samples = 2000", "train_samples = 250"))

    def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_it_serves(self):
        for epochs in (1, 2):  # one is always written at the end
            self.train("run", *BSP, "--set", f"train.epochs={epochs}", "--resume", recipe="r.toml")
        self.assertEqual(self.checkpoints("run"), ["step-00000004", "step-00000008"])
        weights = self.folder / "run" / "checkpoints" / "step-00000008" / "weights.safetensors"
        damaged = bytearray(weights.read_bytes())
        damaged[-1] ^= 1
        weights.write_bytes(damaged)
        done = self.run_paceline("train", "r.toml", "--out", "run", *BSP, "--set", "train.epochs=3", "--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("going on from the checkpoint at update 4 (", done.stderr)
        self.assertRegex(done.stderr, "step-00000008.*damaged")
        kept = self.checkpoints("run")
        self.assertIn("damaged-step-00000008", kept)  # nothing of it is lost
        self.assertIn("step-00000012", kept)
        aside = self.folder / "run" / "checkpoints" / "damaged-step-00000008" / "weights.safetensors"
        self.assertEqual(aside.read_bytes(), damaged)
        self.assertEqual(self.summary("run")["samples"], 750)

    def test_a_run_that_diverged_goes_on_from_before(self):
        """A step with a rate beyond all measure leaves weights that are finite, and a checkpoint of them."""
        self.train("run", *BSP, "--set", "train.epochs=2", recipe="r.toml")
        wild = self.run_paceline("train", "r.toml", "--out", "run", *BSP, "--resume", "--set", "train.epochs=40",
                                 "--set", "checkpoint.every_steps=1", "--set", "optimizer.rate=1e25")
        self.assertEqual(wild.returncode, 6, wild.stderr)
        done = self.run_paceline("train", "r.toml", "--out", "run", *BSP, "--resume", "--set", "train.epochs=3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.summary("run")["samples"], 750)

    def test_an_evaluation_is_broken_off(self):
        """Of a million images, which take longer than the training before it."""
        words = ["r.toml", "--out", "run", *BSP]
        process = self.start_paceline("train", *words, "--set", "data.test_samples=1000000", "--set",
                                      "train.eval_every_epochs=100", stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True)
        while "training" not in process.stderr.readline():
            self.assertIsNone(process.poll(), "the program ended before training began")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIsNone(self.summary("run")["test_accuracy"])
        done = self.run_paceline("train", *words, "--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.summary("run")["samples"], 250)

    def test_too_few_files_are_told_before_the_run(self):
        few = self.run_paceline("train", "r.toml", *BSP,
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)))
        self.assertEqual(few.returncode, 2, few.stderr)
        self.assertRegex(few.stderr, "a run of 2 workers and 2 servers needs .* open files")

    def test_too_little_memory_for_a_server_or_a_worker_ends_the_run(self):
        """gRPC waits for ever, or aborts, where it gets no thread: each process looks first whether there is room."""
        ended = []
        for megabytes in range(460, 621, 40):
            limit = megabytes * 1_000_000
            done = self.run_paceline("train", "r.toml", "--out", f"run-{megabytes}", "--quiet", "--set",
                                     "sync.policy=bsp", timeout=180, preexec_fn=lambda limit=limit: resource.setrlimit(
                                         resource.RLIMIT_AS, (limit, limit)))
            with self.subTest(megabytes=megabytes):
                if done.returncode != 127:  # not even the loader had enough for the libraries of this build
                    ended.append(done.returncode)
                    self.assertIn(done.returncode, (0, 5), done.stderr)
                if done.returncode == 5:
                    self.assertRegex(done.stderr, "the machine has no more memory|a thread could not be started|"
                                     "gRPC has begun and does not answer|Cannot allocate memory")
        self.assertIn(5, ended)


if __name__ == "__main__":
    unittest.main()
