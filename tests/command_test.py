"""What people meet on the command line: help, errors in one line, exit codes, and what a run leaves."""

import json
import os
import re
import subprocess
import sys
import unittest

from paceline_process import PACELINE, SOURCE, ProcessTest


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
        for option in ("--version", "-V"):
            self.assertRegex(self.run_paceline(option).stdout, r"^paceline \d+\.\d+\.\d+\n$")

    def test_help_can_be_asked_for_in_every_way(self):
        main = self.run_paceline("--help").stdout
        self.assertEqual(self.run_paceline("help").stdout, main)
        self.assertEqual(
            self.run_paceline("help", "explain", "step").stdout,
            self.run_paceline("explain", "step", "--help").stdout)
        alone = self.run_paceline()
        self.assertEqual((alone.returncode, alone.stdout, alone.stderr), (2, "", main))
        part = self.run_paceline("recipe")
        self.assertEqual((part.returncode, part.stderr), (2, self.run_paceline("recipe", "--help").stdout))

    def test_every_command_has_examples_of_its_own(self):
        commands = [("train", ), ("serve", ), ("certs", ), ("eval", ), ("models", ), ("recipe", "keys"),
                    ("recipe", "show"), ("recipe", "plot"), ("launch", ), ("explain", "allreduce"), ("explain", "step"),
                    ("profile", ), ("bench", "allreduce"), ("flight", )]
        for command in commands:
            text = self.run_paceline(*command, "--help").stdout
            self.assertIn("\nExamples:\n  paceline " + " ".join(command), text, command)
            self.assertNotIn("Start with:", text, command)
        self.assertIn("explain allreduce --ranks INT --bytes SIZE [OPTIONS]",
                      self.run_paceline("explain", "allreduce", "--help").stdout)

    def test_options_of_several_commands_have_the_same_help(self):
        def words(*command):
            return " ".join(self.run_paceline(*command, "--help").stdout.split())
        for command, default in ((("train", ), "comm.engine"), (("launch", ), "as the program chooses"),
                                 (("profile", ), "as a run would choose"), (("bench", "allreduce"), "shm")):
            self.assertRegex(words(*command), r"--engine TEXT [^-]*\bshm, gloo, mpi, shm\+gloo, shm\+mpi\b[^-]*"
                             rf"\(default: {default}\)", command)
        for command in ("launch", "profile"):
            self.assertIn("(default: ssh -o BatchMode=yes)", words(command))
        engines = self.run_paceline("recipe", "keys", "comm.engine").stdout
        for engine in ("auto", "shm", "gloo", "mpi", "shm+gloo", "shm+mpi"):
            self.assertIn(engine, engines)

    def test_usage_errors_exit_with_2(self):
        self.fails(2, "there is no command 'trian'; did you mean 'train'?", "trian")
        self.fails(2, "RECIPE", "train")
        self.fails(2, "paceline: 'paceline train' has no option '--frobnicate' (see 'paceline train --help')\n",
                   "train", "small.toml", "--frobnicate")
        self.fails(2, "holds no run", "eval", ".")

    def test_an_unknown_option_may_mean_a_key_of_the_recipe(self):
        for arguments, meant in ((("--epochs", "3"), "--set train.epochs=3"), (("--epoch=3", ), "--set train.epochs=3"),
                                 (("--lr", "0.2"), "--set optimizer.rate=0.2"), (("--batch-size", "64"),
                                                                                 "--set batch.global=64"),
                                 (("--optimizer", "adam"), "--set optimizer.name=adam"), (("--rank", "2"), "--ranks")):
            self.fails(2, f"has no option '{arguments[0].split('=')[0]}'; did you mean '{meant}'?", "train",
                       "small.toml", *arguments)
        self.fails(2, "'paceline train' has no option '--weights'", "train", "--weights", "x.safetensors", "small.toml")
        self.fails(2, "'paceline train' does not expect 'other.toml'", "train", "small.toml", "other.toml")

    def test_counts_begin_at_one(self):
        for command in (("train", "small.toml", "--ranks", "0"), ("bench", "allreduce", "--ranks", "0"),
                        ("models", "--classes", "0"), ("explain", "allreduce", "--bytes", "1K", "--ranks", "-3")):
            result = self.fails(2, "expected a whole number from 1 on, found '", *command)
            self.assertEqual(result.stderr.count("\n"), 1)

    def test_a_machine_is_not_asked_for_too_much_in_silence(self):
        self.fails(2, "--ranks 100000: 100000 processes on one machine are too many", "train", "small.toml", "--ranks",
                   "100000")
        served = ("--set", "sync.policy=bsp", "--set", "sync.servers=1024")
        self.fails(2, "--ranks 1 with sync.servers = 1024: 1025 processes", "train", "small.toml", *served)
        self.fails(2, "-n 100000: ", "launch", "-n", "100000", "--", "true")
        cores = len(os.sched_getaffinity(0))
        if cores < 8:
            crowded = self.run_paceline("train", "small.toml", "--ranks", cores + 1, "--set", "train.max_steps=1")
            self.assertEqual(crowded.returncode, 0, crowded.stderr)
            self.assertRegex(
                crowded.stderr,
                f"warning: --ranks {cores + 1}: {cores + 1} processes share {cores} cores?, so they take turns")
            self.assertEqual(crowded.stderr.count("take turns"), 1)
        result = self.run_paceline("train", "small.toml", "--set", "train.max_steps=1", "--set", "train.threads=1024",
                                   "--set", "data.train_samples=32")
        self.assertRegex(result.stderr, "warning: --set train.threads=1024: train.threads: 1024 threads share")

    def test_threads_follow_what_the_process_may_use(self):
        def threads(preparation=None, **variables):
            result = self.run_paceline("train", "small.toml", "--set", "train.max_steps=1", "--json", "--out",
                                       f"run-{len(list(self.folder.iterdir()))}", env={
                                           **os.environ,
                                           **variables
                                       }, preexec_fn=preparation)
            return json.loads(result.stdout)["threads"]
        self.assertEqual(threads(lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})), 1)
        self.assertEqual(threads(OMP_NUM_THREADS="1"), 1)
        self.assertEqual(threads(SLURM_CPUS_PER_TASK="1"), 1)

    def test_a_batch_script_without_srun_is_told(self):
        slurm = {**os.environ, "SLURM_JOB_ID": "79", "SLURM_NTASKS": "4", "SLURM_NNODES": "1"}
        train = ("train", "small.toml", "--set", "train.max_steps=1")
        told = self.run_paceline(*train, env=slurm)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertRegex(
            told.stderr,
            "Slurm gave this job 4 tasks, but this process trains alone; write 'srun .*paceline train small.toml'")
        self.assertNotIn("Slurm", self.run_paceline(*train, "--ranks", "1", env=slurm).stderr)

    def test_what_an_override_leaves_out_is_said(self):
        result = self.run_paceline("train", "small.toml", "--set", "optimizer.name=adam", "--set", "train.max_steps=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("left out of small.toml, as --set leaves it without effect: optimizer.momentum", result.stderr)
        self.assertIn("optimizer.rate stays 0.05, which was meant for sgd; adam begins with 0.001 by default",
                      result.stderr)

    def test_a_name_that_is_too_long_is_an_error_of_files(self):
        self.fails(5, "File name too long", "train", "small.toml", "--out", "x" * 300)

    def test_a_trace_that_cannot_be_written_is_told_before_the_run(self):
        os.mkfifo(self.folder / "pipe")
        for name, why in (("", "is empty"), (".", "no regular file"), ("pipe", "no regular file")):
            self.fails(2, why, "train", "small.toml", "--trace", name)
        self.assertTrue((self.folder / "pipe").is_fifo())

    def test_errors_that_cannot_be_shown_keep_their_exit_code(self):
        with open("/dev/full", "w") as full:
            for code, command in ((3, ("train", "nope")), (2, ("foo", ))):
                done = subprocess.run([PACELINE, *command], cwd=self.folder, stderr=full, stdout=subprocess.PIPE)
                self.assertEqual(done.returncode, code)

    def test_too_little_memory_is_said_in_words(self):
        import resource
        said = 0
        for megabytes in range(300, 1001, 50):
            limit = megabytes * 1_000_000
            result = self.run_paceline(
                "train", "small.toml", "--set", "train.max_steps=1",
                preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
            if result.returncode == 0:
                break  # it was enough
            if result.returncode == 127:
                continue  # not even the loader had enough for the libraries of this build
            self.assertEqual(result.returncode, 5, (megabytes, result.stderr))
            self.assertRegex(result.stderr, "paceline: (the machine has no more memory for this process|"
                             "a thread could not be started)")
            self.assertNotIn("terminate called", result.stderr)
            said += 1
        self.assertEqual(result.returncode, 0, (megabytes, result.stderr))
        self.assertGreater(said, 0)

    def test_a_damaged_profile_is_said_and_the_run_goes_on(self):
        profiles = self.folder / "profiles"
        profiles.mkdir()
        (profiles / "profile-shm-2x1.json").write_text('{"format": "paceline pro')
        result = self.run_paceline("train", "small.toml", "--ranks", "2", "--engine", "shm", "--set",
                                   "train.max_steps=1", env={
                                       **os.environ, "PACELINE_PROFILE_DIR": str(profiles)
                                   })
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("profile-shm-2x1.json cannot be used"), 1, result.stderr)

    def test_output_that_cannot_be_written_is_an_error(self):
        for command in (("models",), ("recipe", "keys"), ("recipe", "show", "small.toml")):
            with open("/dev/full", "w") as full:
                done = subprocess.run([PACELINE, *command], cwd=self.folder, stdout=full, stderr=subprocess.PIPE,
                                      text=True)
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertRegex(done.stderr,
                             "paceline: cannot write the output: (No space left on device|a part of it is lost)")

    def test_an_empty_name_of_a_folder_is_refused(self):
        self.fails(2, "the name of the folder is empty", "train", "small.toml", "--out", "")

    def test_a_recipe_that_is_no_file_is_refused(self):
        os.mkfifo(self.folder / "pipe.toml")
        self.fails(3, "pipe.toml: is no file but a pipe", "train", "pipe.toml")
        self.fails(3, "/dev/zero: is no file but a device", "train", "/dev/zero")

    def test_a_run_folder_that_is_taken_is_refused_before_ranks_start(self):
        self.train("run", "--set", "train.max_steps=1")
        result = self.fails(2, "run holds a run already", "train", "small.toml", "--ranks", "2", "--out", "run")
        self.assertNotIn("rank 0", result.stderr)

    def test_few_classes_have_no_top5(self):
        result = self.run_paceline("train", "small.toml", "--set", "data.classes=4", "--set", "train.max_steps=2",
                                   "--out", "run")
        self.assertRegex(result.stdout, r"test accuracy +\d+\.\d\d %  \(best ")
        self.assertNotIn("top-5", self.run_paceline("eval", "run").stdout)

    def test_keys_can_be_filtered(self):
        table = self.run_paceline("recipe", "keys", "optimizer").stdout
        self.assertIn("nesterov", table)
        self.assertNotIn("label_smoothing", table)
        names = [key["name"] for key in json.loads(self.run_paceline("recipe", "keys", "warmup_", "--json").stdout)]
        self.assertLessEqual({"warmup_epochs", "warmup_from", "warmup_to", "decay_from"} - {"decay_from"}, set(names))
        self.assertNotIn("momentum_batch", names)
        self.fails(2, "no key of a recipe has 'optimiser' in its name or meaning; did you mean 'optimizer'?", "recipe",
                   "keys", "optimiser")

    def test_the_closing_table_fits_a_narrow_terminal(self):
        import fcntl
        import struct
        import termios
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        arguments = [PACELINE, "train", "small.toml", "--set", "train.max_steps=2"]
        with subprocess.Popen(arguments, cwd=self.folder, stdout=slave, stderr=subprocess.DEVNULL) as process:
            os.close(slave)
            text = b""
            while True:
                try:
                    text += os.read(master, 4096)
                except OSError:  # the last writer has closed it
                    break
        os.close(master)
        lines = text.decode().splitlines()
        self.assertTrue(any("parameters" in line for line in lines), lines)
        for line in lines:
            self.assertTrue(len(line) <= 40 or " " not in line[16:].strip(), line)

    def test_explain_step_needs_no_data(self):
        recipes = sorted((SOURCE / "recipes").glob("*.toml"))
        self.assertTrue(recipes)
        for recipe in recipes:
            result = self.run_paceline("explain", "step", recipe, "--ranks", 64, "--backward-ms", 33)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stdout, r"efficiency +\d+\.\d %")
            self.assertIn("Assumed between hosts (of each host): 25 GB/s", result.stdout)

    def test_explain_says_what_it_assumes_and_takes_other_links(self):
        step = ("explain", "step", "small.toml", "--backward-ms", 5)
        one_host = self.run_paceline(*step, "--platform", "shm", "--ranks", len(os.sched_getaffinity(0)), "--set",
                                     "train.threads=1").stdout
        self.assertIn("Nothing is sent before backward is over: on one host", one_host)
        self.assertIn("overlap                0.0 % of communication", one_host)
        half = self.run_paceline(*step, "--ranks", 8, "--set", "comm.codec=fp16").stdout
        communication = re.search(r"communication +([\d.]+) ms in", half)[1]
        self.assertIn(f"communication takes {communication} ms with it", half)  # the verdict agrees with the table
        sum_of = ("explain", "allreduce", "--ranks", 64, "--bytes", "100MB")
        slow = self.run_paceline(*sum_of, "--link", "25Gbit", "--latency", "3us")
        self.assertIn("Assumed between hosts (of each host): 3.12 GB/s (25 Gbit/s), 3 us a message", slow.stdout)
        self.fails(2, "'fast' is no bandwidth", *sum_of, "--link", "fast")
        self.fails(2, "puts all 4096 ranks on one host; say with --ranks-per-host", "explain", "allreduce",
                   "--platform", "shm", "--ranks", 4096, "--bytes", "1K")
        self.fails(2, "are on one host", "explain", "allreduce", "--platform", "shm", "--ranks", 4, "--bytes", "1K",
                   "--link", "25Gbit")

    def test_recipe_errors_exit_with_3_and_name_line_and_nearest(self):
        (self.folder / "bad.toml").write_text("[train]\nepoch = 3\n")
        result = self.fails(3, "bad.toml:2:1: train.epoch: unknown key; did you mean 'epochs'?", "train", "bad.toml")
        self.assertEqual(result.stderr.count("\n"), 1)
        self.fails(3, "--set model.name=resnet19: model.name: there is no model 'resnet19'; did you mean 'resnet18'?",
                   "train", "small.toml", "--set", "model.name=resnet19")
        (self.folder / "data.toml").write_text('[data]\nname = "cifar11"\n')
        self.fails(3, "data.toml:2:1: data.name: there is no data set 'cifar11'; did you mean 'cifar10'?", "train",
                   "data.toml")
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
        (self.folder / "wild.toml").write_text(
            (self.folder / "small.toml").read_text().replace("rate = 0.05", "rate = 1e30"))
        result = self.fails(6, "the run diverged", "train", "wild.toml")
        self.assertIn("optimizer.rate", result.stderr)

    def test_every_command_with_json_prints_json(self):
        summary = json.loads(
            self.run_paceline("train", "small.toml", "--out", "run", "--json", "--set", "train.max_steps=3").stdout)
        self.assertEqual(summary, self.summary("run"))
        evaluation = json.loads(self.run_paceline("eval", "run", "--json").stdout)
        self.assertEqual(evaluation["weights_sha256"], summary["weights_sha256"])
        self.assertEqual(evaluation["test_accuracy"], summary["test_accuracy"])
        self.assertEqual(evaluation["test_loss"], summary["test_loss"])
        models = {row["name"]: row["parameters"] for row in json.loads(self.run_paceline("models", "--json").stdout)}
        self.assertEqual(models["resnet50"], 25557032)
        self.assertIn("epochs", json.dumps(json.loads(self.run_paceline("recipe", "keys", "--json").stdout)))
        self.assertEqual(
            json.loads(self.run_paceline("recipe", "show", "small.toml", "--json").stdout)["batch"]["global"], 32)

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
        result = self.run_paceline("train", "small.toml", "--out", "run", "--set", "train.epochs=1", "--set",
                                   "batch.global=512", "--set", "schedule.warmup_epochs=0.5")
        self.assertIn("1 epoch in 1 step of 512 samples", result.stderr)
        self.assertIn("512 samples seen (1 epoch)", result.stdout)

    def test_a_name_that_no_folder_can_have_is_an_error_of_files(self):
        name = "r" * 300
        self.fails(5, f"cannot create folder {name}: File name too long", "train", "small.toml", "--out", name)

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
        for key in (
                "recipe model parameters device engine ranks epochs steps samples train_seconds "
                "images_per_second train_loss "
                "test_accuracy test_top5 weights_sha256 peak_rss_bytes version").split():
            self.assertIn(key, summary)
        self.assertEqual((summary["recipe"], summary["steps"], summary["samples"], summary["ranks"]),
                         ("small", 40, 40 * 32, 1))
        self.assertEqual(summary["epochs"], 2.5)
        self.assertTrue(0 <= summary["test_accuracy"] <= summary["test_top5"] <= 1)
        self.assertRegex(summary["weights_sha256"], "^[0-9a-f]{64}$")
        left = {
            path.name
            for path in (self.folder / "run").iterdir() if not path.name.startswith(("events.out.tfevents", "."))
        }
        self.assertEqual(left, {"recipe.toml", "metrics.jsonl", "summary.json", "checkpoints", "log.txt", "curves.svg"})
        self.assertEqual(len(list((self.folder / "run").glob("events.out.tfevents*"))), 1)
        self.assertEqual(self.run_paceline("recipe", "show", "run/recipe.toml").returncode, 0)
        kinds = [(line["kind"], line["step"]) for line in self.metrics("run")]
        self.assertEqual(kinds, [("train", 10), ("test", 16), ("train", 20), ("train", 30), ("test", 32), ("train", 40),
                                 ("test", 40)])

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
