"""Training on a parameter server: real processes, as users start them.

usage: server_test.py PACELINE
"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from served_runs import SMALL, child_of, largest_difference, read_weights

PACELINE = str(pathlib.Path(sys.argv.pop(1)).resolve())
ROUNDS = 200 if os.environ.get("PACELINE_SOAK") else 4  # make soak
POLICIES = ["bsp", "asp", "ssp", "drop_worker", "k_sync", "adaptive_k", "easgd"]


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
        return [PACELINE, "train", recipe, "--ranks", str(ranks), "--out", str(self.folder / out), "--quiet", *arguments]

    def train(self, recipe, out, *arguments, ranks=4, expect=0):
        done = subprocess.run(self.command(recipe, out, *arguments, ranks=ranks), capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def summary(self, out):
        return json.loads((self.folder / out / "summary.json").read_text())

    def test_bsp_trains_as_all_reduce(self):
        recipe = self.recipe(SMALL.replace("train_samples = 2000", "train_samples = 250"))
        self.train(recipe, "ranks", ranks=3)
        self.train(recipe, "served", "--set", "sync.policy=bsp", "--set", "sync.servers=2", ranks=3)
        self.assertLess(largest_difference(read_weights(self.folder / "ranks"), read_weights(self.folder / "served")), 1e-5)
        self.assertEqual(self.summary("served")["steps"], self.summary("ranks")["steps"])
        self.assertEqual(self.summary("served")["samples"], 250)
        self.assertGreater(self.summary("served")["compute_seconds_per_step"], 0)
        self.assertGreater(self.summary("served")["communication_seconds_per_step"], 0)
        gradients = 3 * self.summary("served")["steps"] * 4 * self.summary("served")["parameters"]
        shards = json.loads((self.folder / "served" / "sync.json").read_text())["shards"]
        self.assertEqual(sum(shard["bytes_in"] for shard in shards), gradients)
        lines = [json.loads(line) for line in (self.folder / "served" / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual({line["shard"] for line in lines if line["kind"] == "shard"}, {"0", "1"})

    def test_every_policy_uses_every_sample_and_counts_every_gradient(self):
        recipe = self.recipe(SMALL)
        for policy in POLICIES:
            with self.subTest(policy=policy):
                self.train(recipe, policy, "--set", f"sync.policy={policy}", "--set", "sync.slowdown=[3]", "--set", "optimizer.rate=0.02")
                self.assertEqual(self.summary(policy)["samples"], 2000)
                counts = json.loads((self.folder / policy / "sync.json").read_text())
                used = sum(counts["total"][what] for what in ("accumulated", "applied", "merged", "dropped", "exchanged"))
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
        self.train(recipe, "adaptive", "--set", "sync.policy=adaptive_k", "--set", "sync.slowdown=[3]", "--set", "optimizer.rate=0.02")
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
        recipe = self.recipe(SMALL.replace("train_samples = 2000", "train_samples = 250").replace("epochs = 1", "epochs = 4"))
        keys = ["--set", "sync.policy=bsp", "--set", "sync.servers=2"]
        self.train(recipe, "whole", *keys, ranks=2)
        self.train(recipe, "parts", *keys, "--set", "train.max_steps=6", ranks=2)
        self.train(recipe, "parts", *keys, "--resume", ranks=2)
        self.assertEqual(self.summary("parts")["samples"], 1000)
        self.assertEqual(self.summary("parts")["steps"], self.summary("whole")["steps"])
        self.assertEqual(largest_difference(read_weights(self.folder / "whole"), read_weights(self.folder / "parts")), 0)

    def test_two_runs_of_bsp_have_the_same_bits_whoever_is_slow(self):
        recipe = self.recipe(SMALL.replace("train_samples = 2000", "train_samples = 500").replace("epochs = 1", "epochs = 2"))
        for out, slow in (("one", "[1,1,2]"), ("other", "[2,1,1]")):
            self.train(recipe, out, "--set", "sync.policy=bsp", "--set", "sync.servers=2", "--set", f"sync.slowdown={slow}", ranks=3)
        self.assertEqual(self.summary("one")["weights_sha256"], self.summary("other")["weights_sha256"])
        self.assertEqual(self.summary("one")["test_loss"], self.summary("other")["test_loss"])

    def test_a_run_that_lost_its_servers_says_how_many_updates_went(self):
        recipe = self.recipe(SMALL.replace("epochs = 1", "epochs = 4"))
        keys = ["--set", "sync.policy=bsp", "--set", "train.log_every_steps=5", "--set", "sync.slowdown=[3]"]
        chief = subprocess.Popen(self.command(recipe, "lost", *keys, ranks=2), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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
        for state in pathlib.Path("/dev/shm").glob(f"paceline-server-*-run-{chief.pid}"):
            shutil.rmtree(state)
        begun, seen = self.last_checkpoint("lost"), self.seen("lost")
        done = self.train(recipe, "lost", *keys, "--resume", ranks=2)
        self.assertIn(f"going on from the checkpoint at update {begun} (", done.stderr)
        self.assertIn(f"the run had made at least {seen} updates when last seen: at least {seen - begun} are lost", done.stderr)
        self.assertEqual(self.summary("lost")["samples"], 8000)

    def last_checkpoint(self, out):
        found = sorted(path.name for path in (self.folder / out / "checkpoints").glob("step-*") if path.name.removeprefix("step-").isdigit())
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
        command = self.command(recipe, "disturbed", *keys, "--set", "train.log_every_steps=10", "--set", "sync.lease_seconds=30", "--restart", ranks=2)
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
        # Not the statistics of batch normalisation, of which a worker's last may be lost with the connection that it was told on.
        self.assertEqual(largest_difference(read_weights(self.folder / "undisturbed"), read_weights(self.folder / "disturbed")), 0)
        self.assertAlmostEqual(self.summary("disturbed")["test_loss"], self.summary("undisturbed")["test_loss"], delta=0.01)

    def test_kills_at_random_moments_over_all_policies(self):
        """Servers, the coordinator among them, and workers: the run ends by itself, with every sample used, and has learnt what it would have."""
        draw, kills = random.Random(7), 0
        recipe = self.recipe(SMALL.replace("train_samples = 2000", "train_samples = 4000"))
        for number in range(ROUNDS):
            policy = POLICIES[number % len(POLICIES)]
            out = f"round-{number}"
            command = self.command(recipe, out, "--set", f"sync.policy={policy}", "--set", "sync.servers=2", "--set", "optimizer.rate=0.01",
                                   "--set", "sync.lease_seconds=2", "--restart", ranks=3)
            with self.subTest(policy=policy, number=number):
                chief = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                try:
                    self.child_of(chief, "PACELINE_WORKER=2")
                    for _ in range(2):
                        victim = draw.choice(["--shard=0/2", "--shard=1/2", "PACELINE_WORKER=0", "PACELINE_WORKER=1", "PACELINE_WORKER=2"])
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

    def lines(self, out):
        metrics = self.folder / out / "metrics.jsonl"
        return sum(1 for line in metrics.read_text().splitlines() if '"kind":"train"' in line) if metrics.exists() else 0

    def test_workers_find_their_own_rate(self):
        """From a hundredth of a good rate: each worker's own rate rises, and the loss falls further."""
        recipe = self.recipe(SMALL)
        losses = {}
        for rate in ("schedule", "barzilai_borwein"):
            self.train(recipe, rate, "--set", "sync.policy=bsp", "--set", "optimizer.rate=0.0005", "--set", f"sync.rate={rate}", ranks=2)
            losses[rate] = self.summary(rate)["test_loss"]
        self.assertLess(losses["barzilai_borwein"], 0.8 * losses["schedule"])

    def serve(self, recipe, *arguments):
        server = subprocess.Popen([PACELINE, "serve", recipe, "--set", "sync.policy=bsp", "--workers", "2", *arguments], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        return server, server.stdout.readline().removeprefix("listening on ").strip()

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
        self.assertFalse(state.exists())

    def test_tls_and_strangers(self):
        recipe, certs = self.recipe(SMALL), str(self.folder / "certs")
        subprocess.run([PACELINE, "certs", certs], check=True, capture_output=True)
        server, address = self.serve(recipe, "--certs", certs, "--state", str(self.folder / "state"))
        stranger = subprocess.run(self.command(recipe, "stranger", "--set", "sync.policy=bsp", "--servers", address, ranks=2), capture_output=True, text=True,
                                  timeout=50)  # less than the patience with a server that is not there
        self.assertEqual(stranger.returncode, 7, stranger.stderr)
        self.assertIn("--certs DIR", stranger.stderr)
        self.train(recipe, "known", "--set", "sync.policy=bsp", "--servers", address, "--certs", certs, ranks=2)
        self.assertEqual(self.summary("known")["samples"], 2000)
        self.assertEqual(server.wait(timeout=60), 0)
        self.assertIn("the TLS handshake failed", server.stderr.read())

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
