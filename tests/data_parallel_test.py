"""Training over several processes: the same bits every time, also after a rank was killed; one of them speaks for all."""

import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from paceline_process import PACELINE, SOAK, ProcessTest
from rank_processes import MPI_AS_ROOT, PATIENCE_S

# 60 steps of two milliseconds. One thread a rank, so that every machine computes the same.
TINY_RECIPE = """
[model]
name = "small_cnn"
[data]
name = "synthetic"
train_samples = 120
test_samples = 24
image_size = 8
[augment]
crop_padding = 1
flip = true
[batch]
global = 12
[train]
epochs = 6
seed = 7
threads = 1
log_every_steps = 10
[optimizer]
rate = 0.05
momentum = 0.9
weight_decay = 1e-4
[checkpoint]
every_steps = 10
keep = 3
"""


def settings(**values):
    """--set for each: section__key=value."""
    return [word for key, value in values.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]


# Every rank has a state of its own: statistics of its normalisations, and what int8 has left out. Lines of metrics
# straddle checkpoints.
OWN_STATE = settings(model__name="resnet20", data__image_size=12, data__train_samples=240, batch__global=24,
                     comm__codec="int8", train__log_every_steps=3)
TWO = ["--ranks", 2, "--engine", "shm"]


class DataParallelTest(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "tiny.toml").write_text(TINY_RECIPE)

    def train(self, out, *arguments, **options):
        return super().train(out, *arguments, recipe="tiny.toml", **options)

    def start_training(self, *arguments):
        process = self.start_paceline("train", "tiny.toml", *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True, env={
                                          **os.environ, "PACELINE_FLIGHT_DIR": str(self.folder / "flight")
                                      })
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def read_until(self, process, wanted):
        """Reads what the program says until wanted(line); its checkpoint of a step is there before it reports the step."""
        for line in process.stderr:
            if wanted(line):
                return
        self.fail(f"the program ended with {process.wait()} too early")

    def read_until_step(self, process, step):
        reported = lambda line: int((re.search(r"step +(\d+)/", line) or [0, 0])[1])
        self.read_until(process, lambda line: reported(line) >= step)

    def finish(self, process, code):
        output, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, code, errors)
        return output, errors

    def without_times(self, out, kinds=("train", "test")):
        timing = ("seconds", "images_per_second", "efficiency", "overlap", "compute_ms", "communication_ms",
                  "waiting_ms")
        return [{
            key: value
            for key, value in line.items() if key not in timing
        } for line in self.metrics(out) if line["kind"] in kinds]

    def rank_environments(self, launcher):
        """{pid: environment} of the processes that it has started."""
        pids = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
        entries = {int(pid): pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0") for pid in pids}
        return {pid: dict(entry.split("=", 1) for entry in of_rank if entry) for pid, of_rank in entries.items()}

    # ---- the same bits ----

    def test_two_runs_are_bit_equal_on_every_engine(self):
        for engine in ("shm", "gloo", "mpi"):
            with self.subTest(engine):
                runs = [self.train(f"{engine}-{run}", "--ranks", 2, "--engine", engine) for run in (1, 2)]
                for summary in runs:
                    self.assertEqual((summary["engine"], summary["ranks"], summary["steps"], summary["samples"]),
                                     (engine, 2, 60, 720))
                self.assertEqual(runs[0]["weights_sha256"], runs[1]["weights_sha256"])
                self.assertEqual(self.without_times(f"{engine}-1"), self.without_times(f"{engine}-2"))

    def test_two_runs_are_bit_equal_with_every_kind_of_codec(self):
        weights = set()
        for codec in ("int8", "topk"):
            with self.subTest(codec):
                runs = [self.train(f"{codec}-{run}", *TWO, *settings(comm__codec=codec)) for run in (1, 2)]
                self.assertEqual([summary["codec"] for summary in runs], [codec, codec])
                self.assertEqual(runs[0]["weights_sha256"], runs[1]["weights_sha256"])
                weights.add(runs[0]["weights_sha256"])
        self.assertEqual(len(weights), 2)  # they do pack

    def test_whoever_starts_the_ranks_the_bits_are_the_same(self):
        own = self.train("own", *TWO)
        command = [PACELINE, "train", "tiny.toml", "--engine", "shm", "--out"]
        starters = {"mpirun": ["mpirun", "--oversubscribe", "-n", "2"], "launch": [PACELINE, "launch", "-n", "2", "--"]}
        for name, starter in starters.items():
            with self.subTest(name):
                result = subprocess.run([*starter, *command, name], cwd=self.folder, env={
                    **os.environ,
                    **MPI_AS_ROOT
                }, text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stdout.count("test accuracy"), 1, result.stdout)
                summary = self.summary(name)
                self.assertEqual((summary["ranks"], summary["engine"]), (2, "shm"))
                self.assertEqual(summary["weights_sha256"], own["weights_sha256"])

    # ---- going on ----

    def kill_a_rank_and_go_on(self, out, seed):
        """Kills a random rank after a random step from 30 on, looks at what is left, and resumes."""
        chance = random.Random(seed)
        victim, step = chance.randrange(2), chance.randrange(30, 46)
        process = self.start_training("--out", out, *TWO, *OWN_STATE)
        self.read_until_step(process, step)
        ranks = self.rank_environments(process)
        self.assertEqual(sorted(environment["PACELINE_RANK"] for environment in ranks.values()), ["0", "1"])
        (job,) = {environment["PACELINE_JOB"] for environment in ranks.values()}
        os.kill(next(pid for pid, environment in ranks.items() if environment["PACELINE_RANK"] == str(victim)),
                signal.SIGKILL)
        killed = time.monotonic()
        _, errors = self.finish(process, 128 + signal.SIGKILL)
        self.assertLess(time.monotonic() - killed, 20)
        self.assertRegex(
            errors,
            rf"paceline: rank {victim} on host \S+ was killed by signal 9 \(Killed\); the other ranks were ended\n")
        command = " ".join(map(str, [PACELINE, "train", "tiny.toml", *OWN_STATE, *TWO, "--out", out, "--resume"]))
        self.assertRegex(
            errors, rf"the newest checkpoint is {out}/checkpoints/step-\d+; go on with:\n  {re.escape(command)}\n")
        self.assertEqual([pid for pid in ranks if pathlib.Path(f"/proc/{pid}").exists()], [])
        self.assertGreaterEqual(max(self.checkpoints(out)), "step-00000030")
        self.assertFalse((self.folder / out / "summary.json").exists())
        cut = self.train(out, *TWO, *OWN_STATE, "--resume")
        left = [
            name for name in os.listdir("/dev/shm") if name.startswith("paceline") and job.replace("-", "_") in name
        ]
        self.assertEqual(left, [])
        return cut

    def expect_equal_runs(self, cut, whole, cut_out, whole_out):
        for key in ("weights_sha256", "steps", "samples", "epochs", "train_loss", "test_loss", "test_accuracy",
                    "best_accuracy"):
            self.assertEqual(cut[key], whole[key], key)
        self.assertEqual(self.without_times(cut_out), self.without_times(whole_out))

    def test_60_steps_are_30_and_a_killed_rank_and_resume_and_30(self):
        whole = self.train("whole", *TWO, *OWN_STATE)
        self.assertEqual(whole["steps"], 60)
        for seed in range(50 if SOAK else 1):
            with self.subTest(seed=seed):
                self.expect_equal_runs(self.kill_a_rank_and_go_on("cut", seed), whole, "cut", "whole")
            shutil.rmtree(self.folder / "cut", ignore_errors=True)

    def test_what_a_run_leaves_is_its_owners_alone(self):
        for turn in ([], ["--resume"]):
            self.train(
                "runs/private", *TWO, "--trace", "runs/private/trace.json",
                *settings(train__max_steps=4 if not turn else 8, train__diagnose_every_steps=2,
                          checkpoint__every_steps=2), *turn, preexec_fn=lambda: os.umask(0))
            self.expect_private(self.folder / "runs")

    def test_a_run_that_is_at_its_end_has_no_costs_to_tell(self):
        for costs in (True, False):
            result = self.run_paceline("train", "tiny.toml", "--out", "run", *TWO, *settings(train__max_steps=4),
                                       "--resume")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual("efficiency" in result.stdout, costs, result.stdout)

    def test_a_rank_killed_before_the_first_checkpoint(self):
        arguments = [*settings(train__epochs=100000, checkpoint__every_steps=100000), *TWO]
        process = self.start_training("--out", "cut", *arguments)
        self.read_until_step(process, 10)
        os.kill(max(self.rank_environments(process)), signal.SIGKILL)
        _, errors = self.finish(process, 128 + signal.SIGKILL)
        command = " ".join(map(str, [PACELINE, "train", "tiny.toml", *arguments, "--out", "cut", "--resume"]))
        self.assertIn(
            "there is no checkpoint yet (checkpoint.every_steps writes them more often); begin again with:\n  " +
            command, errors)

    def test_ranks_that_are_not_in_step_go_on_bit_for_bit(self):
        ways = {"local_sgd": settings(sync__policy="local_sgd", sync__interval=4),
                "stale_allreduce": settings(sync__policy="stale_allreduce", sync__staleness=2)}
        for policy, engine in (("local_sgd", "shm"), ("stale_allreduce", "shm"), ("stale_allreduce", "mpi")):
            with self.subTest(policy, engine=engine):
                out = f"{policy}-{engine}"
                recipe = ["--ranks", 2, "--engine", engine, *ways[policy], *settings(train__log_every_steps=3)]
                whole = self.train(out, *recipe)
                self.assertEqual((whole["steps"], whole["samples"], whole["ending"]), (60, 720, "epochs"))
                lines = self.without_times(out)
                for step in (60, 50):  # as if it had been killed before these
                    shutil.rmtree(self.folder / out / f"checkpoints/step-000000{step}")
                self.assertEqual((self.folder / out / "checkpoints/step-00000040/under_way.safetensors").exists(),
                                 policy == "stale_allreduce")
                again = self.train(out, *recipe, "--resume")
                for key in ("weights_sha256", "train_loss", "test_loss", "steps", "samples"):
                    self.assertEqual(again[key], whole[key], key)
                self.assertEqual(self.without_times(out), lines)

    def test_dropout_goes_on_bit_for_bit(self):
        # No small model has dropout. Without momentum a checkpoint of this one is half as large.
        large = [
            *TWO, *settings(model__name="alexnet_bn", data__image_size=63, data__test_samples=4, batch__global=4,
                            train__max_steps=2, checkpoint__every_steps=1, optimizer__momentum=0)
        ]
        whole = self.train("run", *large)
        shutil.rmtree(self.folder / "run/checkpoints/step-00000002")  # as if it had been killed before this one
        again = self.train("run", *large, "--resume")
        for key in ("weights_sha256", "train_loss", "test_loss"):
            self.assertEqual(again[key], whole[key], key)

    def change_ranks(self, before, after, *recipe):
        """Three epochs of 8 batches of 12 and one of 4, the first 13 steps on `before` ranks; returns the lines about training."""
        out = f"{before}-{after}"
        recipe = [*settings(data__train_samples=100, train__epochs=3, comm__codec="int8"), *recipe]
        first = self.train(out, "--ranks", before, "--engine", "shm", *recipe, *settings(train__max_steps=13))
        self.assertEqual((first["ranks"], first["steps"], first["samples"]), (before, 13, 100 + 4 * 12))
        result = self.run_paceline("train", "tiny.toml", "--out", out, "--ranks", after, "--engine", "shm", *recipe,
                                   "--resume")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"it was written by {before} ranks, {after} go on", result.stderr)
        summary = self.summary(out)
        self.assertEqual((summary["ranks"], summary["steps"], summary["samples"], summary["epochs"]),
                         (after, 27, 300, 3))
        self.assertEqual(summary["ending"], "epochs")
        return self.without_times(out, kinds=("train",))

    def test_a_run_goes_on_with_other_ranks(self):
        for before, after in ((4, 3), (2, 4)):
            with self.subTest(before=before, after=after):
                lines = self.change_ranks(before, after)
                self.assertEqual([(line["step"], line["epoch"]) for line in lines], [(13, 1.48), (18, 2), (27, 3)])
                for line, samples in zip(lines, (148, 52, 100), strict=True):  # since the line before, over all ranks
                    self.assertAlmostEqual(line["accuracy"] * samples, round(line["accuracy"] * samples), places=9)

    def test_no_sample_is_lost_or_seen_twice_when_ranks_change(self):
        # With statistics over all ranks and a rate that changes no weight, a step's loss depends on nothing but its
        # samples.
        frozen = settings(train__log_every_steps=1, batch_norm__sync="true", optimizer__rate=1e-30)
        self.train("one", *frozen, *settings(data__train_samples=100, train__epochs=3))
        expected = self.without_times("one", kinds=("train",))
        self.assertEqual([line["step"] for line in expected], list(range(1, 28)))
        for before, after in ((4, 3), (2, 4)):
            with self.subTest(before=before, after=after):
                for line, of_one in zip(self.change_ranks(before, after, *frozen), expected, strict=True):
                    self.assertEqual((line["step"], line["epoch"], line["accuracy"]),
                                     (of_one["step"], of_one["epoch"], of_one["accuracy"]))
                    self.assertAlmostEqual(line["loss"], of_one["loss"], places=4)

    # ---- Ctrl-C ----

    def expect_interrupted(self, process, out, *arguments):
        """Ctrl-C; returns the step after which the run stopped, and the command that goes on."""
        process.send_signal(signal.SIGINT)
        _, errors = self.finish(process, 130)
        self.assertEqual(errors.count("stopping after this step and writing a checkpoint"), 1, errors)
        self.assertTrue((self.folder / out / "summary.json").exists(), errors)
        summary = self.summary(out)
        self.assertEqual(summary["ending"], "interrupted")
        self.assertIn(f"step-{summary['steps']:08}", self.checkpoints(out))
        command = f"{PACELINE} train tiny.toml {' '.join(map(str, arguments))} --out {out} --resume"
        self.assertEqual(errors.count(f"interrupted at step {summary['steps']}; go on with:\n  {command}\n"), 1, errors)
        return summary["steps"], command

    def test_ctrl_c_writes_a_checkpoint_and_says_how_to_go_on(self):
        arguments = [*settings(train__epochs=100000, comm__codec="int8"), *TWO]
        process = self.start_training("--out", "cut", *arguments)
        self.read_until_step(process, 10)
        steps, command = self.expect_interrupted(process, "cut", *arguments)
        end = settings(train__max_steps=steps + 5)
        result = self.run_paceline(*command.split()[1:], *end)
        self.assertEqual(result.returncode, 0, result.stderr)
        cut, whole = self.summary("cut"), self.train("whole", *arguments, *end)
        for key in ("weights_sha256", "steps", "samples", "test_loss", "test_accuracy"):
            self.assertEqual(cut[key], whole[key], key)
        self.assertEqual(self.without_times("cut", kinds=("test",)), self.without_times("whole", kinds=("test",)))
        self.assertAlmostEqual(cut["train_loss"], whole["train_loss"],
                               places=12)  # the ranks' sums were added at another moment

    def test_ctrl_c_waits_for_the_end_of_a_long_step_under_mpirun_too(self):
        """mpirun kills its ranks 2 s after a Ctrl-C: it must not get one."""
        arguments = [
            *settings(train__epochs=100000, data__train_samples=120000, batch__global=120000, batch__micro=20,
                      train__log_every_steps=1), "--ranks", "2", "--engine", "mpi"
        ]
        process = self.start_training("--out", "cut", *arguments)
        self.read_until_step(process, 1)
        began = time.monotonic()
        steps, _ = self.expect_interrupted(process, "cut", *arguments)
        self.assertEqual(steps, 2)
        self.assertGreater(time.monotonic() - began, 2, "the step is too short to show anything")

    def test_a_run_goes_on_with_the_plan_of_its_checkpoint(self):
        self.train("run", *TWO, *settings(train__max_steps=10))
        plan = self.folder / "run/plan.json"
        whole = plan.read_text()
        plan.write_text(whole[:40])
        for end, changed, warns in ((15, {}, False), (20, {"comm__bucket_bytes": "'1KiB'"}, True)):
            result = self.run_paceline("train", "tiny.toml", "--out", "run", "--resume", *TWO,
                                       *settings(train__max_steps=end, **changed))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual("does not serve this run: gradients are summed by another" in result.stderr, warns,
                             result.stderr)
            self.assertEqual(plan.read_text() == whole, not warns)
        self.assertIn("algorithms", json.loads(plan.read_text()))

    def test_only_rank_0_writes(self):
        result = self.run_paceline("train", "tiny.toml", *TWO, "--trace", "trace.json", *settings(train__max_steps=45))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual({path.name
                          for path in self.folder.iterdir()}, {"small.toml", "tiny.toml", "runs", "trace.json"})
        self.assertEqual([path.name for path in (self.folder / "runs").iterdir()], ["tiny"])
        run = self.folder / "runs/tiny"
        left = {path.name for path in run.iterdir() if not path.name.startswith(("events.out.tfevents", "."))}
        self.assertEqual(
            left, {"recipe.toml", "metrics.jsonl", "summary.json", "checkpoints", "log.txt", "curves.svg", "plan.json"})
        self.assertEqual(len(list(run.glob("events.out.tfevents*"))), 1)
        self.assertEqual([int(step) for step in re.findall(r"step +(\d+)/45 ", result.stderr)], [10, 20, 30, 40, 45])
        self.assertEqual([line["step"] for line in self.metrics("runs/tiny") if line["kind"] == "train"],
                         [10, 20, 30, 40, 45])
        self.assertEqual(result.stderr.count("2 ranks over shm, 1 thread each"), 1)
        rows = collections.Counter(line[2:16].strip() for line in result.stdout.splitlines() if line.startswith("  "))
        for row in ("model", "ran on", "a step", "efficiency", "test accuracy", "results"):
            self.assertEqual(rows[row], 1, result.stdout)
        self.expect_costs(self.summary("runs/tiny"))
        self.expect_trace(json.loads((self.folder / "trace.json").read_text()), steps=45)

    def expect_costs(self, summary):
        self.assertEqual(summary["single_device_seconds"], 2 * summary["train_seconds"])
        self.assertTrue(0 < summary["efficiency"] <= 1, summary)
        self.assertTrue(0 <= summary["overlap"] <= 1, summary)
        for key in ("compute_seconds_per_step", "communication_seconds_per_step", "waiting_seconds_per_step"):
            self.assertTrue(0 < summary[key] < summary["train_seconds"], key)

    def expect_trace(self, trace, steps):
        """As chrome://tracing wants it: a process per rank, a thread per track, complete events with times."""
        events = trace["traceEvents"]
        named = lambda what: {
            (event["pid"], event["tid"]): event["args"]["name"]
            for event in events if event["name"] == what
        }
        tracks = named("thread_name")
        self.assertEqual([name.split(" (")[0] for _, name in sorted(named("process_name").items())],
                         ["rank 0", "rank 1"])
        counts = collections.Counter()
        for event in events:
            if event["ph"] != "M":
                self.assertEqual(event["ph"], "X")
                self.assertTrue(event["ts"] >= 0 and event["dur"] >= 0, event)
                counts[event["pid"], tracks[event["pid"], event["tid"]], event["name"]] += 1
        for rank in (0, 1):
            for track, name in (("communication", "bucket 0"), ("compute", "forward"), ("compute", "backward"),
                                ("compute", "update")):
                self.assertEqual(counts[rank, track, name], steps, (rank, track, name))

    def test_an_error_in_the_recipe_is_told_once(self):
        for wrong, text in (("model.nme=small_cnn", "model.nme: unknown key; did you mean 'name'?"),
                            ("model.name=resnet19",
                             "model.name: there is no model 'resnet19'; did you mean 'resnet18'?"),
                            ("comm.codec=int9", "comm.codec: there is no codec 'int9'; did you mean 'int8'?")):
            with self.subTest(wrong):
                result = self.run_paceline("train", "tiny.toml", *TWO, "--set", wrong)
                self.assertEqual(result.returncode, 3, result.stderr)
                self.assertEqual(result.stderr.count(text), 1, result.stderr)
                self.assertEqual(result.stdout, "")
                self.assertFalse((self.folder / "runs/tiny").exists(), "a folder of a run that never began")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
