"""What people meet on the command line: help, errors in one line, exit codes, and what a run leaves."""

import json
import re
import sys
import unittest

from paceline_process import SOURCE, ProcessTest


class CommandTest(ProcessTest):
    def fails(self, code, text, *arguments):
        result = self.run_paceline(*arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(text, result.stderr)
        return result

    def test_help_names_every_command_and_the_exit_codes(self):
        result = self.run_paceline("--help")
        self.assertEqual(result.returncode, 0)
        for word in ("train", "eval", "models", "recipe", "Exit codes", "recipes/fashion_mnist.toml"):
            self.assertIn(word, result.stdout)
        for command in ("train", "eval", "models", "recipe"):
            self.assertEqual(self.run_paceline(command, "--help").returncode, 0)

    def test_version(self):
        self.assertRegex(self.run_paceline("--version").stdout, r"^paceline \d+\.\d+\.\d+\n$")

    def test_usage_errors_exit_with_2(self):
        self.fails(2, "there is no command 'trian'; did you mean 'train'?", "trian")
        self.fails(2, "RECIPE", "train")
        self.fails(2, "--frobnicate", "train", "small.toml", "--frobnicate")
        self.fails(2, "holds no run", "eval", ".")
        self.assertEqual(self.run_paceline().returncode, 2)

    def test_recipe_errors_exit_with_3_and_name_line_and_nearest(self):
        (self.folder / "bad.toml").write_text("[train]\nepoch = 3\n")
        result = self.fails(3, "bad.toml:2:1: train.epoch: unknown key; did you mean 'epochs'?", "train", "bad.toml")
        self.assertEqual(result.stderr.count("\n"), 1)
        self.fails(3, "--set model.name=resnet19: model.name: there is no model 'resnet19'; did you mean 'resnet18'?",
                   "train", "small.toml", "--set", "model.name=resnet19")
        (self.folder / "data.toml").write_text('[data]\nname = "cifar11"\n')
        self.fails(3, "data.toml:2:1: data.name: there is no data set 'cifar11'; did you mean 'cifar10'?", "train", "data.toml")
        self.fails(3, "missing.toml", "train", "missing.toml")

    def test_a_model_refuses_images_that_are_too_small_by_name(self):
        self.fails(3, "alexnet", "train", "small.toml", "--set", "model.name=alexnet")

    def test_data_errors_exit_with_4(self):
        (self.folder / "cifar.toml").write_text('[data]\nname = "cifar10"\nroot = "nowhere"\n')
        self.fails(4, "nowhere", "train", "cifar.toml")

    def test_file_errors_exit_with_5(self):
        (self.folder / "taken").write_text("")
        self.fails(5, "taken", "train", "small.toml", "--out", "taken/run")

    def test_divergence_exits_with_6_and_says_what_to_try(self):
        (self.folder / "wild.toml").write_text((self.folder / "small.toml").read_text().replace("rate = 0.05", "rate = 1e30"))
        result = self.fails(6, "the run diverged", "train", "wild.toml")
        self.assertIn("optimizer.rate", result.stderr)

    def test_every_command_with_json_prints_json(self):
        summary = json.loads(self.run_paceline("train", "small.toml", "--out", "run", "--json", "--set", "train.max_steps=3").stdout)
        self.assertEqual(summary, self.summary("run"))
        evaluation = json.loads(self.run_paceline("eval", "run", "--json").stdout)
        self.assertEqual(evaluation["weights_sha256"], summary["weights_sha256"])
        self.assertEqual(evaluation["test_accuracy"], summary["test_accuracy"])
        self.assertEqual(evaluation["test_loss"], summary["test_loss"])
        models = {row["name"]: row["parameters"] for row in json.loads(self.run_paceline("models", "--json").stdout)}
        self.assertEqual(models["resnet50"], 25557032)
        self.assertIn("epochs", json.dumps(json.loads(self.run_paceline("recipe", "keys", "--json").stdout)))
        self.assertEqual(json.loads(self.run_paceline("recipe", "show", "small.toml", "--json").stdout)["batch"]["global"], 32)

    def test_eval_takes_the_averaged_weights_where_the_run_kept_them(self):
        averaged = ("--set", "optimizer.average=0.9", "--set", "train.max_steps=20")
        summary, plain = self.train("averaged", *averaged), self.train("plain", *averaged[2:])
        self.assertEqual(summary["weights_sha256"], plain["weights_sha256"])  # training itself is the same
        self.assertNotEqual(summary["test_loss"], plain["test_loss"])
        evaluation = json.loads(self.run_paceline("eval", "averaged", "--json").stdout)
        for key in ("weights_sha256", "test_accuracy", "test_loss"):
            self.assertEqual(evaluation[key], summary[key], key)

    def test_a_folder_with_a_run_is_not_overwritten(self):
        short = ["--set", "train.max_steps=2"]
        self.train("run", *short)
        self.fails(2, "run holds a run already; add --resume", "train", "small.toml", "--out", "run")
        # Without --out each run gets a folder of its own.
        for expected in ("small", "small-2", "small-3"):
            self.assertEqual(self.run_paceline("train", "small.toml", *short).returncode, 0)
            self.assertTrue((self.folder / "runs" / expected / "summary.json").exists())

    def test_one_step_of_one_epoch_is_not_several(self):
        result = self.run_paceline("train", "small.toml", "--out", "run", "--set", "train.epochs=1", "--set", "batch.global=512",
                                   "--set", "schedule.warmup_epochs=0.5")
        self.assertIn("1 epoch in 1 step of 512 samples", result.stderr)
        self.assertIn("512 samples seen (1 epoch)", result.stdout)

    def test_resume_begins_a_run_that_is_not_there(self):
        for where, out in (("fresh", ["--out", "fresh"]), ("runs/small", [])):
            for time in (1, 2):  # the same command, as a script gives it
                result = self.run_paceline("train", "small.toml", *out, "--resume", "--set", "train.max_steps=2")
                self.assertEqual(result.returncode, 0, result.stderr)
                begins = f"no checkpoint in {where}/checkpoints yet: starting from the beginning"
                (self.assertIn if time == 1 else self.assertNotIn)(begins, result.stderr)
                self.assertEqual(self.summary(where)["steps"], 2)
        self.assertEqual([path.name for path in (self.folder / "runs").iterdir()], ["small"])

    def test_a_run_leaves_what_the_formats_promise(self):
        summary = self.train("run", "--set", "train.max_steps=40")
        for key in ("recipe model parameters device engine ranks epochs steps samples train_seconds images_per_second train_loss "
                    "test_accuracy test_top5 weights_sha256 peak_rss_bytes version").split():
            self.assertIn(key, summary)
        self.assertEqual((summary["recipe"], summary["steps"], summary["samples"], summary["ranks"]), ("small", 40, 40 * 32, 1))
        self.assertEqual(summary["epochs"], 2.5)
        self.assertTrue(0 <= summary["test_accuracy"] <= summary["test_top5"] <= 1)
        self.assertRegex(summary["weights_sha256"], "^[0-9a-f]{64}$")
        left = {path.name for path in (self.folder / "run").iterdir() if not path.name.startswith(("events.out.tfevents", "."))}
        self.assertEqual(left, {"recipe.toml", "metrics.jsonl", "summary.json", "checkpoints", "log.txt", "curves.svg"})
        self.assertEqual(len(list((self.folder / "run").glob("events.out.tfevents*"))), 1)
        self.assertEqual(self.run_paceline("recipe", "show", "run/recipe.toml").returncode, 0)
        kinds = [(line["kind"], line["step"]) for line in self.metrics("run")]
        self.assertEqual(kinds, [("train", 10), ("test", 16), ("train", 20), ("train", 30), ("test", 32), ("train", 40), ("test", 40)])

    def test_a_target_accuracy_ends_the_run_early(self):
        summary = self.train("run", "--set", "train.target_accuracy=0.12")
        self.assertEqual(summary["ending"], "target")
        self.assertLess(summary["steps"], 100)
        self.assertGreaterEqual(summary["test_accuracy"], 0.12)
        self.assertIsNotNone(summary["target_seconds"])

    def test_plain_output_has_no_control_characters(self):
        result = self.run_paceline("train", "small.toml")
        self.assertNotRegex(result.stderr + result.stdout, "[\x00-\x09\x0b-\x1f]")
        self.assertIn("step 10/100", re.sub(" +", " ", result.stderr))
        self.assertIn("runs/small", result.stdout)

    def test_two_processes_do_not_train_in_one_folder(self):
        import fcntl
        (self.folder / "run").mkdir()
        with open(self.folder / "run" / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.fails(5, "another process is training in run", "train", "small.toml", "--out", "run")

    def test_every_published_recipe_is_valid(self):
        recipes = sorted((SOURCE / "recipes").glob("*.toml"))
        self.assertTrue(recipes)
        for recipe in recipes:
            result = self.run_paceline("recipe", "show", recipe)
            self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
