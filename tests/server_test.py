"""Training on a parameter server: real processes, as users start them.

usage: server_test.py PACELINE
"""

import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from served_runs import SMALL, child_of, largest_difference, read_weights

PACELINE = str(pathlib.Path(sys.argv.pop(1)).resolve())
ROUNDS = 200 if os.environ.get("PACELINE_SOAK") else 4  # make soak
# What becomes of the gradients of a run in which one of four workers is three times as slow, under each policy: this,
# and nothing else.
BECOMES = {
    "bsp": {"accumulated"},
    "asp": {"applied"},
    "ssp": {"applied"},
    "drop_worker": {"accumulated", "dropped"},
    "k_sync": {"accumulated", "merged"},
    "adaptive_k": {"accumulated", "merged"},
    "easgd": {"exchanged"}
}
POLICIES = list(BECOMES)


class ServerTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def recipe(self, text):
        file = self.folder / "r.toml"
        file.write_text(text)
        return str(file)

    def command(self, recipe, out, *arguments, ranks=4):
        return [
            PACELINE, "train", recipe, "--ranks",
            str(ranks), "--out",
            str(self.folder / out), "--quiet", *arguments
        ]

    def train(self, recipe, out, *arguments, ranks=4, expect=0):
        done = subprocess.run(self.command(recipe, out, *arguments, ranks=ranks), capture_output=True, text=True,
                              timeout=240)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def summary(self, out):
        return json.loads((self.folder / out / "summary.json").read_text())

    def test_bsp_trains_as_all_reduce(self):
        recipe = self.recipe(SMALL.replace("train_samples = 2000", "train_samples = 250"))
        self.train(recipe, "ranks", ranks=3)
        self.train(recipe, "served", "--set", "sync.policy=bsp", "--set", "sync.servers=2", ranks=3)
        self.assertLess(largest_difference(read_weights(self.folder / "ranks"), read_weights(self.folder / "served")),
                        1e-5)
        self.assertEqual(self.summary("served")["steps"], self.summary("ranks")["steps"])
        self.assertEqual(self.summary("served")["samples"], 250)
        self.assertGreater(self.summary("served")["compute_seconds_per_step"], 0)
        self.assertGreater(self.summary("served")["communication_seconds_per_step"], 0)
        gradients = 3 * self.summary("served")["steps"] * 4 * self.summary("served")["parameters"]
        shards = json.loads((self.folder / "served" / "sync.json").read_text())["shards"]
        self.assertEqual(sum(shard["bytes_in"] for shard in shards), gradients)
        for path in [self.folder / "served", *(self.folder / "served").rglob("*")]:
            self.assertEqual(oct(path.stat().st_mode & 0o777), "0o700" if path.is_dir() else "0o600", path)
        lines = [json.loads(line) for line in (self.folder / "served" / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual({line["shard"] for line in lines if line["kind"] == "shard"}, {"0", "1"})

    def test_every_policy_uses_every_sample_and_counts_every_gradient(self):
        recipe = self.recipe(SMALL)
        for policy in POLICIES:
            with self.subTest(policy=policy):
                self.train(recipe, policy, "--set", f"sync.policy={policy}", "--set", "sync.slowdown=[3]", "--set",
                           "optimizer.rate=0.02")
                self.assertEqual(self.summary(policy)["samples"], 2000)
                counts = json.loads((self.folder / policy / "sync.json").read_text())
                total = {
                    what: counts["total"][what]
                    for what in ("accumulated", "applied", "merged", "dropped", "exchanged")
                }
                self.assertEqual({what for what, count in total.items() if count > 0}, BECOMES[policy])
                used = sum(total.values())
                shares = 4 * 32 if policy != "easgd" else 4 * 4  # of an epoch; exchanges: one for ten batches
                self.assertEqual(used, shares)

    def test_policies_that_do_not_wait_for_all_reach_an_accuracy(self):
        recipe = self.recipe(SMALL.replace("epochs = 1", "epochs = 2"))
        for policy, rate in (("k_sync", 0.02), ("adaptive_k", 0.02), ("easgd", 0.02)):
            with self.subTest(policy=policy):
                self.train(recipe, policy, "--set", f"sync.policy={policy}", "--set", f"optimizer.rate={rate}")
                self.assertGreaterEqual(self.summary(policy)["test_accuracy"], 0.95)

    def test_adaptive_k_of_four_workers_makes_no_step_of_a_single_gradient(self):
        """Of one gradient no noise can be measured, and k would stay at 1. Only the last steps, when workers have left, may have fewer."""
        recipe = self.recipe(SMALL.replace("epochs = 1", "epochs = 2\nlog_every_steps = 5"))
        self.train(recipe, "adaptive", "--set", "sync.policy=adaptive_k", "--set", "sync.slowdown=[3]", "--set",
                   "optimizer.rate=0.02")
        counts = json.loads((self.folder / "adaptive" / "sync.json").read_text())
        self.assertGreater(counts["version"], 12)  # the first 8 steps have the least k in any case
        self.assertGreaterEqual(counts["total"]["accumulated"], 2 * (counts["version"] - 4))
        lines = [json.loads(line) for line in (self.folder / "adaptive" / "metrics.jsonl").read_text().splitlines()]
        looks = [line["k"] for line in lines if line["kind"] == "train" and line["live"] >= 2]
        self.assertTrue(looks)
        self.assertGreaterEqual(min(looks), 2)

    def test_a_killed_worker_is_not_waited_for(self):
        recipe = self.recipe(SMALL.replace("epochs = 1", "epochs = 6"))
        command = self.command(recipe, "killed", "--set", "sync.policy=bsp", "--set", "sync.lease_seconds=1")
        chief = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            worker = self.child_of(chief, "PACELINE_WORKER=2")
            self.wait_for(lambda: (self.folder / "killed" / "metrics.jsonl").exists() and
                          (self.folder / "killed" / "metrics.jsonl").stat().st_size > 0)
            os.kill(worker, signal.SIGKILL)
            output, errors = chief.communicate(timeout=200)
        finally:
            chief.kill()
        self.assertEqual(chief.returncode, 0, errors)
        self.assertIn("worker 2 killed by signal 9 (Killed); its samples go to the others", errors)
        self.assertEqual(self.summary("killed")["samples"], 12000)

    def test_a_run_goes_on_from_its_checkpoint(self):
        recipe = self.recipe(
            SMALL.replace("train_samples = 2000", "train_samples = 250").replace("epochs = 1", "epochs = 4"))
        keys = ["--set", "sync.policy=bsp", "--set", "sync.servers=2"]
        self.train(recipe, "whole", *keys, ranks=2)
        self.train(recipe, "parts", *keys, "--set", "train.max_steps=6", ranks=2)
        self.train(recipe, "parts", *keys, "--resume", ranks=2)
        self.assertEqual(self.summary("parts")["samples"], 1000)
        self.assertEqual(self.summary("parts")["steps"], self.summary("whole")["steps"])
        self.assertEqual(largest_difference(read_weights(self.folder / "whole"), read_weights(self.folder / "parts")),
                         0)
        # Batch statistics go on from the workers' mean. Of means that is exact; variances also depend on which worker
        # had which share.
        means = [
            read_weights(self.folder / out, of=lambda name: name.endswith("running_mean")) for out in ("whole", "parts")
        ]
        self.assertLess(largest_difference(*means), 1e-4)

    def test_two_runs_of_bsp_have_the_same_bits_whoever_is_slow(self):
        recipe = self.recipe(
            SMALL.replace("train_samples = 2000", "train_samples = 500").replace("epochs = 1", "epochs = 2"))
        for out, slow in (("one", "[1,1,2]"), ("other", "[2,1,1]")):
            self.train(recipe, out, "--set", "sync.policy=bsp", "--set", "sync.servers=2", "--set",
                       f"sync.slowdown={slow}", ranks=3)
        self.assertEqual(self.summary("one")["weights_sha256"], self.summary("other")["weights_sha256"])
        self.assertEqual(self.summary("one")["test_loss"], self.summary("other")["test_loss"])

    def test_a_run_that_lost_its_servers_says_how_many_updates_went(self):
        recipe = self.recipe(SMALL.replace("epochs = 1", "epochs = 4"))
        keys = ["--set", "sync.policy=bsp", "--set", "train.log_every_steps=5", "--set", "sync.slowdown=[10]"]
        chief = subprocess.Popen(self.command(recipe, "lost", *keys, ranks=2), stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        self.addCleanup(chief.communicate)
        self.addCleanup(chief.kill)
        processes = [self.child_of(chief, sign) for sign in ("--shard=0/1", "PACELINE_WORKER=0", "PACELINE_WORKER=1")]
        self.wait_for(lambda: self.last_checkpoint("lost") > 0 and self.seen("lost") > self.last_checkpoint("lost") + 5)
        for process in [chief.pid, *processes]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass  # with the chief its children end
        chief.wait(timeout=60)
        begun, seen = self.last_checkpoint("lost"), self.seen("lost")
        done = self.train(recipe, "lost", *keys, "--resume", ranks=2)
        self.assertIn(f"going on from the checkpoint at update {begun} (", done.stderr)
        self.assertIn(f"the run had made at least {seen} updates when last seen: at least {seen - begun} are lost",
                      done.stderr)
        self.assertEqual(self.summary("lost")["samples"], 8000)

    def last_checkpoint(self, out):
        found = sorted(path.name for path in (self.folder / out / "checkpoints").glob("step-*")
                       if path.name.removeprefix("step-").isdigit())
        return int(found[-1].removeprefix("step-")) if found else 0

    def seen(self, out):
        try:
            metrics = (self.folder / out / "metrics.jsonl").read_text().splitlines()
            steps = [json.loads(line)["step"] for line in metrics if line.endswith("}")]
            return max([json.loads((self.folder / out / "seen.json").read_text())["updates"], *steps])
        except (FileNotFoundError, ValueError):
            return 0

    def test_servers_that_are_killed_are_started_again_and_nothing_shows(self):
        recipe = self.recipe(SMALL.replace("train_samples = 2000", "train_samples = 6000"))
        keys = ["--set", "sync.policy=bsp", "--set", "sync.servers=2"]
        self.train(recipe, "undisturbed", *keys, ranks=2)
        command = self.command(recipe, "disturbed", *keys, "--set", "train.log_every_steps=10", "--set",
                               "sync.lease_seconds=30", "--restart", ranks=2)
        chief = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            for number, argument in enumerate(("--shard=1/2", "--shard=0/2")):
                self.wait_for(lambda: self.lines("disturbed") > number)
                os.kill(self.child_of(chief, argument), signal.SIGKILL)
            output, errors = chief.communicate(timeout=200)
        finally:
            chief.kill()
        self.assertEqual(chief.returncode, 0, errors)
        for name in ("server 0", "server 1"):
            self.assertIn(f"{name} killed by signal 9 (Killed): it was started again", errors)
        self.assertEqual(self.summary("disturbed")["samples"], 6000)
        self.assertEqual(self.summary("disturbed")["steps"], self.summary("undisturbed")["steps"])
        # Not the statistics of batch normalisation, of which a worker's last may be lost with the connection that it
        # was told on.
        self.assertEqual(
            largest_difference(read_weights(self.folder / "undisturbed"), read_weights(self.folder / "disturbed")), 0)
        self.assertAlmostEqual(
            self.summary("disturbed")["test_loss"],
            self.summary("undisturbed")["test_loss"], delta=0.01)

    def test_kills_at_random_moments_over_all_policies(self):
        """Servers, the coordinator among them, and workers: the run ends by itself, with every sample used, and has learnt what it would have."""
        draw, kills = random.Random(7), 0
        recipe = self.recipe(SMALL.replace("train_samples = 2000", "train_samples = 4000"))
        for number in range(ROUNDS):
            policy = POLICIES[number % len(POLICIES)]
            out = f"round-{number}"
            command = self.command(recipe, out, "--set", f"sync.policy={policy}", "--set", "sync.servers=2", "--set",
                                   "optimizer.rate=0.01", "--set", "sync.lease_seconds=2", "--set",
                                   "sync.slowdown=[10,10,10]", "--restart", ranks=3)
            with self.subTest(policy=policy, number=number):
                chief = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                try:
                    self.child_of(chief, "PACELINE_WORKER=2")
                    for _ in range(2):
                        victim = draw.choice([
                            "--shard=0/2", "--shard=1/2", "PACELINE_WORKER=0", "PACELINE_WORKER=1", "PACELINE_WORKER=2"
                        ])
                        time.sleep(draw.uniform(0, 1.5))  # a random moment; whatever it hits, the end must be the same
                        try:
                            os.kill(child_of(chief, victim), signal.SIGKILL)
                            kills += 1
                        except (TypeError, ProcessLookupError):
                            pass  # the run is over already
                    output, errors = chief.communicate(timeout=120)
                finally:
                    chief.kill()
                self.assertEqual(chief.returncode, 0, errors)
                self.assertEqual(self.summary(out)["samples"], 4000, errors)
                self.assertGreaterEqual(self.summary(out)["test_accuracy"], 0.99, errors)
        print(f"{kills} processes killed in {ROUNDS} runs", file=sys.stderr)
        self.assertGreater(kills, ROUNDS)

    def start(self, recipe, out, *arguments, ranks=2, before=(), env=None):
        chief = subprocess.Popen([*before, *self.command(recipe, out, *arguments, ranks=ranks)], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, env=env)
        self.addCleanup(chief.communicate)
        self.addCleanup(chief.kill)
        return chief

    def server_of(self, out):
        """Of a run whose processes may lie below another one; by the name of the recipe's folder and the state of the chief's children."""
        chief = next(
            folder for folder in pathlib.Path("/proc").glob("[0-9]*")
            if self.words_of(folder)[1:2] == [b"train"] and str(self.folder / out).encode() in self.words_of(folder))
        return next(
            int(folder.name) for folder in pathlib.Path("/proc").glob("[0-9]*")
            if self.words_of(folder)[1:2] == [b"serve"] and f"PPid:\t{chief.name}\n" in (folder / "status").read_text())

    def words_of(self, process):
        try:
            return (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            return []

    def state_of(self, server):
        words = pathlib.Path(f"/proc/{server}/cmdline").read_bytes().split(b"\0")
        return pathlib.Path(words[words.index(b"--state") + 1].decode())

    def test_the_state_of_a_killed_run_is_removed_by_the_next_and_that_of_a_live_one_is_not(self):
        """Also where each run has process numbers of its own and its first process has the same, as in containers."""
        contained = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
        if subprocess.run([*contained, "true"], capture_output=True).returncode != 0:
            contained = ()
        recipe = self.recipe(SMALL.replace("epochs = 1", "epochs = 200"))
        keys = ["--set", "sync.policy=bsp"]
        killed, live = (self.start(recipe, out, *keys, before=contained) for out in ("killed", "live"))
        states = []
        for chief, out in ((killed, "killed"), (live, "live")):
            self.wait_for(lambda: self.seen(out) > 0)
            states.append(self.state_of(self.server_of(out)))
        self.assertEqual([state.stat().st_mode & 0o777 for state in states], [0o700, 0o700])
        killed.kill()
        killed.wait(timeout=60)
        self.assertTrue(states[0].exists())
        done = self.train(recipe, "next", *keys, "--set", "train.max_steps=3", ranks=2)
        self.assertEqual(self.summary("next")["samples"], 3 * 64, done.stderr)
        self.assertEqual([state.exists() for state in states], [False, True])

    def test_a_run_whose_servers_lost_their_state_goes_on_from_its_checkpoint(self):
        recipe = self.recipe(SMALL.replace("epochs = 1", "epochs = 5"))
        chief = self.start(recipe, "lost", "--set", "sync.policy=bsp", "--set", "sync.servers=2", "--set",
                           "train.log_every_steps=5", "--set", "sync.slowdown=[10]")
        server = self.child_of(chief, "--shard=1/2")
        self.wait_for(lambda: self.last_checkpoint("lost") > 0)
        shutil.rmtree(self.state_of(server))
        os.kill(server, signal.SIGKILL)
        output, errors = chief.communicate(timeout=200)
        self.assertEqual(chief.returncode, 0, errors)
        self.assertRegex(
            errors,
            r"server 1 killed by signal 9 \(Killed\), and its state in \S+ is gone; all servers and workers are "
            r"started again"
        )
        self.assertRegex(errors, r"going on from the checkpoint at update \d+ ")
        self.assertEqual(self.summary("lost")["samples"], 10000)
        steps = [
            line["step"] for line in map(json.loads, (self.folder / "lost" / "metrics.jsonl").read_text().splitlines())
            if line["kind"] == "train"
        ]
        self.assertEqual(steps, sorted(set(steps)))

    def test_a_server_that_dies_before_it_listens_is_started_again(self):
        recipe = self.recipe(SMALL)
        chief = self.start(recipe, "early", "--set", "sync.policy=bsp", "--set", "sync.servers=2")
        for argument in ("--shard=0/2",
                         "--shard=1/2"):  # it needs the data set and libtorch first, which takes longer than this
            os.kill(self.child_of(chief, argument), signal.SIGKILL)
        output, errors = chief.communicate(timeout=200)
        self.assertEqual(chief.returncode, 0, errors)
        self.assertIn("server 1 killed by signal 9 (Killed): it was started again", errors)
        self.assertEqual(self.summary("early")["samples"], 2000)

    def test_with_no_restart_a_killed_server_ends_the_run_at_once(self):
        recipe = self.recipe(SMALL.replace("epochs = 1", "epochs = 200"))
        chief = self.start(recipe, "killed", "--set", "sync.policy=bsp", "--no-restart")
        self.wait_for(lambda: self.seen("killed") > 0)
        os.kill(self.child_of(chief, "--shard=0/1"), signal.SIGKILL)
        output, errors = chief.communicate(timeout=40)  # workers and chief would wait for a minute
        self.assertEqual(chief.returncode, 7, errors)
        self.assertRegex(errors,
                         r"server 0 killed by signal 9 \(Killed\).*; go on from the newest checkpoint with --resume")

    def test_a_server_that_fails_in_the_same_way_each_time_ends_the_run(self):
        """Here the file system for its state is full: from the beginning, or when the first gradient comes."""
        for size in ("64k", "1m"):
            with self.subTest(size=size):
                small = [
                    "unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$@"', "sh"
                ]
                if subprocess.run([*small, "true"], capture_output=True).returncode != 0:
                    self.skipTest("no file system can be mounted")
                chief = self.start(self.recipe(SMALL), f"full-{size}", "--set", "sync.policy=bsp", before=small)
                output, errors = chief.communicate(timeout=100)
                self.assertEqual(chief.returncode, 5, errors)
                self.assertIn("No space left on device", errors)
                self.assertIn("it had ended like this before, and the run had got no further", errors)
                self.assertEqual(errors.count("it was started again"), 1)

    def lines(self, out):
        metrics = self.folder / out / "metrics.jsonl"
        return sum(1 for line in metrics.read_text().splitlines()
                   if '"kind":"train"' in line) if metrics.exists() else 0

    def test_workers_find_their_own_rate(self):
        """From a hundredth of a good rate: each worker's own rate rises, and the loss falls further."""
        recipe = self.recipe(SMALL)
        losses = {}
        for rate in ("schedule", "barzilai_borwein"):
            self.train(recipe, rate, "--set", "sync.policy=bsp", "--set", "optimizer.rate=0.0005", "--set",
                       f"sync.rate={rate}", ranks=2)
            losses[rate] = self.summary(rate)["test_loss"]
        self.assertLess(losses["barzilai_borwein"], 0.8 * losses["schedule"])

    def serve(self, recipe, *arguments, env=None):
        server = subprocess.Popen([PACELINE, "serve", recipe, "--set", "sync.policy=bsp", "--workers", "2", *arguments],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        return server, server.stdout.readline().removeprefix("listening on ").strip()

    def test_a_run_of_another_recipe_is_refused_and_the_keys_are_named(self):
        recipe, state = self.recipe(SMALL), self.folder / "state"
        server, address = self.serve(recipe, "--state", str(state))
        done = self.train(recipe, "other", "--set", "sync.policy=bsp", "--set", "optimizer.rate=0.5", "--set",
                          "data.train_samples=1000", "--servers", address, ranks=2, expect=7)
        self.assertIn(
            "the recipe differs: optimizer.rate (0.1 here, 0.5 there), training samples (2000 here, 1000 there)",
            done.stderr)
        self.train(recipe, "same", "--set", "sync.policy=bsp", "--set", "train.log_every_steps=7", "--servers", address,
                   ranks=2)
        self.assertEqual(server.wait(timeout=60), 0)

    def test_the_state_of_a_stopped_server_is_continued_only_by_its_run(self):
        recipe, keys = self.recipe(SMALL.replace(
            "epochs = 1", "epochs = 4")), ["--set", "sync.policy=bsp", "--set", "sync.slowdown=[10,10]"]
        server, address = self.serve(recipe, "--state", str(self.folder / "state"))
        run = self.start(recipe, "run", *keys, "--servers", address)
        self.wait_for(lambda: self.seen("run") > 0)
        run.kill()  # its workers end with it
        run.wait(timeout=60)
        server.terminate()
        self.assertEqual(server.wait(timeout=60), 130)

        other, _ = self.serve(recipe, "--state", str(self.folder / "state"), "--set", "train.seed=2")
        self.assertEqual(other.wait(timeout=60), 5)
        self.assertRegex(other.stderr.read(), r"is of another recipe: train.seed \(2 here, 1 there\), "
                         r"training samples, pixels and labels .*; "  # another seed makes other images
                         r"give the recipe as it was, or begin anew")

        server, address = self.serve(recipe, "--state", str(self.folder / "state"))
        done = self.train(recipe, "new", *keys, "--servers", address, ranks=2, expect=2)
        self.assertIn("the servers are in the middle of a run (update ", done.stderr)
        self.assertFalse((self.folder / "new").exists())
        self.train(recipe, "run", *keys, "--servers", address, "--resume", ranks=2)
        self.assertEqual(self.summary("run")["samples"], 8000)
        self.assertEqual(server.wait(timeout=60), 0)

    def test_fresh_servers_remove_what_was_left_but_not_what_is_used(self):
        recipe, state = self.recipe(SMALL), ["--state", str(self.folder / "state")]
        left, _ = self.serve(recipe, *state)
        second, _ = self.serve(recipe, *state, "--fresh")
        self.assertEqual(second.wait(timeout=60), 5)
        self.assertIn("is held by a server that is running; end it first", second.stderr.read())
        left.terminate()
        self.assertEqual(left.wait(timeout=60), 130)
        server, address = self.serve(recipe, *state, "--fresh", "--set", "train.seed=2")
        self.train(recipe, "run", "--set", "sync.policy=bsp", "--set", "train.seed=2", "--servers", address, ranks=2)
        self.assertEqual(server.wait(timeout=60), 0)
        self.assertIn("removed the state in", server.stderr.read())

    def test_a_server_that_began_anew_is_found_out(self):
        """By those who knew the state that it has lost, and by whoever looks after the run again."""
        recipe, keys = self.recipe(SMALL.replace("epochs = 1", "epochs = 2000")), ["--set", "sync.policy=bsp"]
        server, address = self.serve(recipe, "--state", str(self.folder / "state"))
        run = self.start(recipe, "run", *keys, "--servers", address)
        self.wait_for(lambda: self.last_checkpoint("run") > 0)
        server.kill()
        server.wait(timeout=60)
        shutil.rmtree(self.folder / "state")
        server, _ = self.serve(recipe, "--state", str(self.folder / "state"), "--listen", address)
        output, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 7, errors)
        self.assertIn("has lost the state that this process worked with, and has begun anew (it is at update 0 now)",
                      errors)
        done = self.train(recipe, "run", *keys, "--servers", address, "--resume", ranks=2, expect=2)
        self.assertIn(
            "they have lost their state and begun anew; stop them, and start them with 'paceline serve --checkpoint",
            done.stderr)
        server.terminate()
        server.wait(timeout=60)
        begun = self.last_checkpoint("run")
        server, address = self.serve(recipe, "--state", str(self.folder / "state"), "--checkpoint",
                                     str(self.folder / "run" / "checkpoints" / f"step-{begun:08}"))
        run = self.start(recipe, "run", *keys, "--servers", address, "--resume")
        self.wait_for(lambda: self.last_checkpoint("run") > begun)
        run.send_signal(signal.SIGINT)
        output, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 130, errors)
        self.assertGreater(self.summary("run")["steps"], begun)
        self.assertIn(f" --servers {address} --out {self.folder / 'run'} --resume",
                      (self.folder / "run" / "log.txt").read_text())

    def test_servers_of_ones_own_begin_anew_for_every_run(self):
        recipe, state = self.recipe(SMALL), self.folder / "state"
        accuracy = []
        for out in ("one", "two"):
            server, address = self.serve(recipe, "--state", str(state))
            self.train(recipe, out, "--set", "sync.policy=bsp", "--servers", address, ranks=2)
            self.assertEqual(server.wait(timeout=60), 0)
            self.assertGreater(self.summary(out)["compute_seconds_per_step"], 0)
            self.assertFalse(state.exists())
            accuracy.append(self.summary(out)["test_loss"])
        self.assertAlmostEqual(*accuracy, places=3)

    def test_a_server_that_cannot_begin_leaves_nothing(self):
        recipe, state = self.recipe(SMALL), self.folder / "state"
        server, address = self.serve(recipe, "--state", str(state), "--listen", "0.0.0.0:0")
        self.assertEqual((server.wait(timeout=60), address), (2, ""))
        self.assertIn("in a network that you trust, --insecure lifts this", server.stderr.read())
        self.assertFalse(state.exists())

    def test_tls_and_strangers(self):
        recipe, certs = self.recipe(SMALL), str(self.folder / "certs")
        subprocess.run([PACELINE, "certs", certs], check=True, capture_output=True)
        server, address = self.serve(recipe, "--certs", certs, "--state", str(self.folder / "state"))
        stranger = subprocess.run(
            self.command(recipe, "stranger", "--set", "sync.policy=bsp", "--servers", address, ranks=2),
            capture_output=True, text=True, timeout=50)  # less than the patience with a server that is not there
        self.assertEqual(stranger.returncode, 7, stranger.stderr)
        self.assertIn("--certs DIR", stranger.stderr)
        self.train(recipe, "known", "--set", "sync.policy=bsp", "--servers", address, "--certs", certs, ranks=2)
        self.assertEqual(self.summary("known")["samples"], 2000)
        self.assertEqual(server.wait(timeout=60), 0)
        self.assertIn("the TLS handshake failed", server.stderr.read())

    def test_a_server_that_never_listens_can_be_interrupted(self):
        run = self.start(self.recipe(SMALL), "run", "--set", "sync.policy=bsp", env={
            **os.environ, "PACELINE_TIMEOUT": "1"
        })
        children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children")
        self.wait_for(lambda: children.read_text().split())
        os.kill(int(children.read_text().split()[0]), signal.SIGSTOP)  # before it has loaded anything
        self.assertIn("server 0 has not said where it listens for 1 s; if it is not reading its data",
                      run.stderr.readline())
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 130, errors)
        self.assertIn("interrupted before server 0 listened", errors)

    def test_options_for_servers_are_refused_where_there_are_none(self):
        recipe = self.recipe(SMALL)
        for option in (["--servers",
                        "127.0.0.1:7000"], ["--certs",
                                            "nowhere"], ["--insecure"], ["--run",
                                                                         "x"], ["--restart"], ["--no-restart"]):
            with self.subTest(option=option[0]):
                done = self.train(recipe, "alone", *option, ranks=1, expect=2)
                self.assertIn(
                    f'{option[0]} is for runs on a parameter server, and sync.policy is "allreduce": choose '
                    f'another with --set sync.policy=bsp',
                    done.stderr)
                self.assertFalse((self.folder / "alone").exists())
        done = self.train(recipe, "both", "--set", "sync.policy=bsp", "--no-restart", "--servers", "127.0.0.1:7000",
                          expect=2)
        self.assertIn("--no-restart is for servers that the run starts itself; leave it out with --servers",
                      done.stderr)

    def test_servers_that_are_not_there_are_waited_for_as_long_as_the_environment_says(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:  # a port where no server answers
            address = "127.0.0.1:%d" % taken.getsockname()[1]
        done = subprocess.run(self.command(self.recipe(SMALL), "dead", "--set", "sync.policy=bsp", "--servers",
                                           address), capture_output=True, text=True, timeout=50, env={
                                               **os.environ, "PACELINE_TIMEOUT": "1"
                                           })  # without it they are waited for longer than this
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertRegex(done.stderr,
                         rf"the servers \({address}\) have not answered for \d+\.\d s: .*; do all of them run\?")

    def test_a_token_instead_of_certificates(self):
        recipe, certs, worker = self.recipe(SMALL), self.folder / "certs", self.folder / "worker"
        subprocess.run([PACELINE, "certs", str(certs)], check=True, capture_output=True)
        worker.mkdir()
        shutil.copy(certs / "authority.pem", worker)
        secret = {"PACELINE_SERVER_TOKEN": "known to all of the run"}
        options = ["--certs", str(certs), "--state"]
        server, first = self.serve(recipe, *options, str(self.folder / "state-0"), "--shard", "0/2", env={
            **os.environ,
            **secret
        })
        other, second = self.serve(recipe, *options, str(self.folder / "state-1"), "--shard", "1/2", "--coordinator",
                                   first, env={
                                       **os.environ,
                                       **secret
                                   })
        address = f"{first},{second}"

        def refused(token):
            done = subprocess.run(
                self.command(recipe, f"stranger {token}", "--set", "sync.policy=bsp", "--servers", address, "--certs",
                             str(worker), ranks=1), capture_output=True, text=True, timeout=50, env={
                                 **os.environ,
                                 **token
                             })
            self.assertNotEqual(done.returncode, 0, done.stderr)
            return done.stderr
        self.assertIn("client.pem is not there: a worker needs it and its key, or the servers' token", refused({}))
        self.assertIn("the server refused this run's token", refused({"PACELINE_SERVER_TOKEN": "a guess"}))
        self.assertIn("PACELINE_SERVER_TOKEN is empty", refused({"PACELINE_SERVER_TOKEN": ""}))
        done = subprocess.run(
            self.command(recipe, "known", "--set", "sync.policy=bsp", "--servers", address, "--certs", str(worker),
                         ranks=2), capture_output=True, text=True, timeout=100, env={
                             **os.environ,
                             **secret
                         })
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.summary("known")["samples"], 2000)
        self.assertEqual((server.wait(timeout=60), other.wait(timeout=60)), (0, 0))

    def test_a_policy_that_is_none_and_keys_that_do_not_go_are_refused(self):
        recipe = self.recipe(SMALL)
        done = self.train(recipe, "wrong", "--set", "sync.policy=bps", expect=3)
        self.assertIn("did you mean 'bsp'", done.stderr)
        done = self.train(recipe, "wrong", "--set", "sync.policy=bsp", "--set", "comm.codec=topk", expect=3)
        self.assertIn("use none, fp16, bf16 or int8", done.stderr)
        self.assertFalse((self.folder / "wrong").exists())

    def child_of(self, parent, sign):
        return self.wait_for(lambda: child_of(parent, sign))

    def wait_for(self, condition, seconds=60):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if found := condition():
                return found
            time.sleep(0.02)
        self.fail("it did not happen")


if __name__ == "__main__":
    unittest.main()
