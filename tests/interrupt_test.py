"""Ctrl-C writes a checkpoint and says how to go on; a second one ends the program at once."""

import shlex
import signal
import subprocess
import sys
import unittest

from paceline_process import PACELINE, ProcessTest

ENDLESS = ["--set", "train.epochs=100000", "--set", "checkpoint.every_steps=100000"]


class InterruptTest(ProcessTest):
    def start_endless_run(self, out="run", *words, **options):
        process = self.start_paceline("train", "small.toml", "--out", out, *ENDLESS, *words, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, **options)
        line = process.stderr.readline()
        while "step" not in line:  # the first line of progress: training has begun
            self.assertNotEqual(line, "", "the program ended before training began")
            line = process.stderr.readline()
        return process

    def test_the_first_one_writes_a_checkpoint_and_says_how_to_go_on(self):
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal_number):
                process = self.start_endless_run()
                process.send_signal(signal_number)
                output, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 130, errors)
                summary = self.summary("run")
                self.assertEqual(summary["ending"], "interrupted")
                self.assertIn(f"step-{summary['steps']:08}", self.checkpoints("run"))
                self.assertIn("stopping after this step and writing a checkpoint", errors)
                command = f"{PACELINE} train small.toml " + " ".join(ENDLESS) + " --out run --resume"
                self.assertIn(command, errors)
                # And the command does go on.
                resumed = self.run_paceline(*command.split()[1:], "--set", f"train.max_steps={summary['steps'] + 5}")
                self.assertEqual(resumed.returncode, 0, resumed.stderr)
                self.assertEqual(self.summary("run")["steps"], summary["steps"] + 5)
                for path in sorted((self.folder / "run").rglob("*"), reverse=True):
                    path.rmdir() if path.is_dir() else path.unlink()

    def test_the_command_that_goes_on_is_quoted_for_a_shell(self):
        words = ["--set", "data.name='synthetic'"]
        process = self.start_endless_run("my run; exit 7", *words)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1]
        command = errors.split("go on with:\n  ")[1].splitlines()[0]
        self.assertEqual(shlex.split(command),
                         [PACELINE, "train", "small.toml", *ENDLESS, *words, "--out", "my run; exit 7", "--resume"])

    def test_the_second_one_ends_it_at_once(self):
        process = self.start_endless_run()
        # Both at once, while the program is stopped: it cannot finish its step between them.
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertFalse((self.folder / "run" / "summary.json").exists())

    def test_an_evaluation_is_broken_off(self):
        # Of one step and then of a million images, which take minutes.
        words = ["small.toml", "--set", "train.max_steps=1", "--out", "run"]
        process = self.start_paceline("train", *words, "--set", "data.test_samples=1000000", stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
        while "training" not in process.stderr.readline():
            self.assertIsNone(process.poll(), "the program ended before training began")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertEqual(self.summary("run")["ending"], "interrupted")
        self.assertIsNone(self.summary("run")["test_accuracy"])
        resumed = self.run_paceline("train", *words, "--resume")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual(self.summary("run")["ending"], "max_steps")
        self.assertGreaterEqual(self.summary("run")["test_accuracy"], 0)

    def test_a_run_under_nohup_outlives_its_terminal(self):
        process = self.start_endless_run(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        # The hang-up comes first. It would be the first request, and SIGINT the second one, which ends the run at once.
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertEqual(self.summary("run")["ending"], "interrupted")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
