"""Interrupted runs go on bit for bit; broken checkpoints are skipped; the newest one is never broken."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

from paceline_process import PACELINE, SOAK, SOURCE, ProcessTest


class ResumeTest(ProcessTest):
    def without_times(self, lines):
        timing = ("seconds", "images_per_second", "efficiency", "overlap", "compute_ms", "communication_ms",
                  "waiting_ms")
        return [{key: value for key, value in line.items() if key not in timing} for line in lines]

    def kill_after_step(self, out, step, *arguments):
        """Starts a run and kills it with SIGKILL when its checkpoint of `step` is there."""
        process = self.start_paceline("train", "small.toml", "--out", out, *arguments, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
        checkpoint = self.folder / out / "checkpoints" / f"step-{step:08}"
        self.wait_until(checkpoint.exists, process, f"step {step}")
        process.send_signal(signal.SIGKILL)
        self.assertEqual(process.wait(), -signal.SIGKILL)

    def test_100_steps_are_50_and_kill_and_resume_and_50(self):
        whole = self.train("whole")
        self.kill_after_step("cut", 50)
        cut = self.train("cut", "--resume")
        self.assertEqual(cut["steps"], 100)
        self.assertEqual(cut["weights_sha256"], whole["weights_sha256"])
        for key in ("train_loss", "test_accuracy", "test_loss", "samples", "epochs"):
            self.assertEqual(cut[key], whole[key], key)
        self.assertEqual(self.without_times(self.metrics("cut")), self.without_times(self.metrics("whole")))
        for run in ("whole", "cut"):  # TensorBoard sees each step once, too
            subprocess.run([sys.executable, SOURCE / "tests/read_events.py", self.folder / run], check=True)

    def test_a_run_killed_before_its_first_checkpoint_begins_again(self):
        process = self.start_paceline("train", "small.toml", "--out", "cut", "--set", "checkpoint.every_steps=99",
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        metrics = self.folder / "cut/metrics.jsonl"
        self.wait_until(metrics.exists, process, "the run has begun")
        process.kill()
        process.wait()
        self.assertFalse((self.folder / "cut/checkpoints").exists())
        result = self.run_paceline("train", "small.toml", "--out", "cut", "--resume")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("no checkpoint in cut/checkpoints yet: starting from the beginning", result.stderr)
        self.assertEqual(self.summary("cut")["weights_sha256"], self.train("whole")["weights_sha256"])

    def test_the_runs_own_recipe_is_a_recipe_as_it_was_written_only(self):
        whole = self.train("run")
        recipe = self.folder / "run/recipe.toml"
        written = recipe.read_text()
        for step in (100, 90):
            shutil.rmtree(self.folder / f"run/checkpoints/step-{step:08}")
        for changed in (written.replace("rate = 0.05", "rate = 0.06"), ""):
            recipe.write_text(changed)
            result = self.run_paceline("train", "run/recipe.toml", "--out", "run", "--resume")
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertIn("run/recipe.toml is not what run/checkpoints/step-00000080 was written with", result.stderr)
            self.assertIn("optimizer.rate: 0.05 -> ", result.stderr)
        recipe.unlink()
        result = self.run_paceline("train", "run/checkpoints/step-00000080/recipe.toml", "--out", "run", "--resume")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.summary("run")["weights_sha256"], whole["weights_sha256"])
        self.assertEqual(recipe.read_text(), written)
        recipe.unlink()  # nor does eval need it
        self.assertEqual(
            json.loads(self.run_paceline("eval", "run", "--json").stdout)["weights_sha256"], whole["weights_sha256"])

    def test_no_checkpoint_of_a_run_is_lost_to_damaged_ones(self):
        self.train("run", "--set", "train.max_steps=20")
        for name in self.checkpoints("run"):
            (self.folder / "run/checkpoints" / name / "state.json").write_text("{}")
        result = self.run_paceline("train", "small.toml", "--out", "run", "--resume", "--set", "train.max_steps=18",
                                   "--set", "checkpoint.keep=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(
            "skipped a damaged checkpoint: run/checkpoints/step-00000020: state.json does not have its checksum; "
            "it is kept as damaged-step-00000020", result.stderr)
        self.assertEqual(self.checkpoints("run"), ["damaged-step-00000010", "damaged-step-00000020", "step-00000018"])
        self.assertEqual(self.run_paceline("eval", "run").returncode, 0)

    def test_two_runs_are_bit_equal_and_another_seed_is_not(self):
        first, second = self.train("first"), self.train("second")
        self.assertEqual(first["weights_sha256"], second["weights_sha256"])
        other = self.train("other", "--set", "train.seed=8")
        self.assertNotEqual(first["weights_sha256"], other["weights_sha256"])

    def test_dropout_resumes_bit_for_bit(self):
        alexnet = [
            "--set", "model.name=alexnet", "--set", "data.image_size=64", "--set", "train.max_steps=4", "--set",
            "batch.global=4", "--set", "checkpoint.every_steps=2", "--set", "schedule.warmup_epochs=0.01", "--set",
            "data.test_samples=8"
        ]
        whole = self.train("whole", *alexnet)
        self.train("cut", *[word.replace("max_steps=4", "max_steps=2") for word in alexnet])
        cut = self.train("cut", "--resume", *alexnet)
        self.assertEqual(cut["weights_sha256"], whole["weights_sha256"])

    def test_resume_skips_damaged_checkpoints_and_says_so(self):
        whole = self.train("run")
        newest, second, third = (self.folder / "run" / "checkpoints" / f"step-{step:08}" for step in (100, 90, 80))
        with open(newest / "weights.safetensors", "r+b") as file:  # one flipped bit
            file.seek(-5, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-5, os.SEEK_END)
            file.write(bytes([byte ^ 1]))
        os.truncate(second / "optimizer.safetensors", 100)
        result = self.run_paceline("train", "small.toml", "--out", "run", "--resume")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(
            f"skipped a damaged checkpoint: run/checkpoints/{newest.name}: weights.safetensors does not have its "
            f"checksum",
            result.stderr)
        self.assertIn(
            f"skipped a damaged checkpoint: run/checkpoints/{second.name}: optimizer.safetensors does not have "
            f"its checksum",
            result.stderr)
        self.assertIn(f"resuming from run/checkpoints/{third.name}", result.stderr)
        self.assertEqual(self.summary("run")["weights_sha256"], whole["weights_sha256"])

    def test_only_the_last_checkpoints_are_kept(self):
        self.train("run")
        self.assertEqual(self.checkpoints("run"), ["step-00000080", "step-00000090", "step-00000100"])

    def test_checkpoints_can_be_verified_with_sha256sum(self):
        self.train("run", "--set", "train.max_steps=10")
        folder = self.folder / "run" / "checkpoints" / "step-00000010"
        subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True, capture_output=True)

    def test_a_finished_run_stays_as_it_is(self):
        first = self.train("run")
        again = self.train("run", "--resume")
        self.assertEqual(again["weights_sha256"], first["weights_sha256"])
        self.assertEqual(again["steps"], 100)
        log = (self.folder / "run/log.txt").read_text()
        for step in (90, 100):
            self.assertEqual(log.count(f"wrote run/checkpoints/step-{step:08}"), 1, log)

    def test_a_longer_run_goes_on_from_a_finished_one(self):
        self.train("run", "--set", "schedule.name=constant", "--set", "train.max_steps=50")
        result = self.run_paceline("train", "small.toml", "--out", "run", "--resume", "--set", "schedule.name=constant")
        self.assertIn("the recipe has changed since the run began: train.max_steps: 50 -> 0", result.stderr)
        longer = self.summary("run")
        whole = self.train("whole", "--set", "schedule.name=constant")
        self.assertEqual(longer["weights_sha256"], whole["weights_sha256"])

    def test_a_writer_killed_at_any_moment_leaves_no_broken_newest_checkpoint(self):
        rounds = 200 if SOAK else 4
        moments = random.Random(1)
        whole = self.train("whole", "--set", "checkpoint.every_steps=1")
        for round in range(rounds):
            process = self.start_paceline("train", "small.toml", "--out", "cut", "--resume", "--set", "checkpoint.every_steps=1",
                                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) if round else \
                self.start_paceline("train", "small.toml", "--out", "cut", "--set", "checkpoint.every_steps=1",
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            before = set(self.checkpoints("cut")) if round else set()
            folder = self.folder / "cut" / "checkpoints"
            self.wait_until(lambda: folder.exists() and set(self.checkpoints("cut")) - before, process,
                            "a new checkpoint")
            time.sleep(moments.uniform(0, 0.02))  # a random moment of the next steps: not a wait for anything
            process.kill()
            errors = process.communicate()[1].decode()
            self.assertNotIn("damaged", errors)
            if any(name.startswith("step-000001") for name in self.checkpoints("cut")):
                shutil.rmtree(self.folder / "cut")  # near the end: begin again
                self.run_paceline("train", "small.toml", "--out", "cut", "--set", "train.max_steps=1")
        result = self.run_paceline("train", "small.toml", "--out", "cut", "--resume", "--set",
                                   "checkpoint.every_steps=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("damaged", result.stderr)
        self.assertEqual(self.summary("cut")["weights_sha256"], whole["weights_sha256"])

    def test_a_full_disk_leaves_the_older_checkpoints_and_says_what_to_do(self):
        # A real file system of 3 MB, in a mount namespace of its own.
        inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
        if subprocess.run([*inside, "mount -t tmpfs tmpfs /mnt"], capture_output=True).returncode != 0:
            self.skipTest("this kernel gives no mount namespace to ordinary users")
        size = self.checkpoint_bytes()
        disk = self.folder / "disk"
        disk.mkdir()
        script = f"""
            mount -t tmpfs -o size={int(size * 3.5)} tmpfs {disk} || exit 99
            {PACELINE} train small.toml --out {disk}/run --quiet --set checkpoint.keep=10; echo "code $?"
            ls -A {disk}/run/checkpoints
            {PACELINE} train small.toml --out {disk}/run --quiet --resume --set checkpoint.keep=1 --json |
              grep weights_sha256
        """
        result = subprocess.run([*inside, script], cwd=self.folder, capture_output=True, text=True)
        self.assertIn("code 5", result.stdout, result.stderr)
        self.assertIn("No space left on device; free some space or choose another folder with --out", result.stderr)
        self.assertNotIn(".writing", result.stdout)
        self.assertNotIn("damaged", result.stderr)
        self.assertIn(self.train("whole")["weights_sha256"], result.stdout)

    def checkpoint_bytes(self):
        self.train("sample", "--set", "train.max_steps=10")
        return sum(path.stat().st_size for path in (self.folder / "sample" / "checkpoints" / "step-00000010").iterdir())

    def test_a_checkpoint_of_another_model_is_refused(self):
        self.train("run", "--set", "train.max_steps=10")
        result = self.run_paceline("train", "small.toml", "--out", "run", "--resume", "--set", "model.name=resnet20")
        self.assertEqual(result.returncode, 4)
        self.assertIn("weights.safetensors", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
