"""paceline launch --restart with the roles that there are: ranks that sum gradients, workers and chief of a served run, servers."""

import os
import signal
import subprocess
import sys
import time
import unittest

from paceline_process import PACELINE, ProcessTest
from rank_processes import free_port
from served_runs import SMALL, child_of

SERVED = SMALL.replace("train_samples = 2000", "train_samples = 6000").replace("epochs = 1", "epochs = 2\nlog_every_steps = 5") + """
[sync]
policy = "bsp"
lease_seconds = 5
slowdown = [3]
"""


class RestartTest(ProcessTest):
    def launch(self, *arguments):
        process = self.start_paceline("launch", *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def kill(self, parent, *sign):
        self.wait_until(lambda: child_of(parent, *sign) is not None, parent, f"{sign} came")
        os.kill(child_of(parent, *sign), signal.SIGKILL)

    def steps(self, out):
        metrics = self.folder / out / "metrics.jsonl"
        return len(metrics.read_text().splitlines()) if metrics.exists() else 0

    def finish(self, process, code=0, timeout=120):
        output, errors = process.communicate(timeout=timeout)
        self.assertEqual(process.returncode, code, output + errors)
        return errors

    def test_ranks_that_sum_gradients_are_all_started_again_and_go_on_from_the_checkpoint(self):
        undisturbed = self.launch("-n", "2", "--", PACELINE, "train", "small.toml", "--out", "undisturbed", "--quiet")
        self.finish(undisturbed)
        launcher = self.launch("-n", "2", "--restart", "--", PACELINE, "train", "small.toml", "--out", "disturbed", "--quiet")
        self.wait_until(lambda: (self.folder / "disturbed" / "checkpoints" / "step-00000020").exists(), launcher, "its second checkpoint")
        self.kill(launcher, "PACELINE_RANK=1", "PACELINE_GENERATION=0")
        errors = self.finish(launcher)
        self.assertIn("was killed by signal 9 (Killed); the other ranks were ended", errors)
        self.assertIn("all ranks are started again (1 of 10)", errors)
        self.assertEqual(self.summary("disturbed")["weights_sha256"], self.summary("undisturbed")["weights_sha256"])

    def test_workers_a_chief_and_a_server_that_are_killed_are_started_again(self):
        (self.folder / "served.toml").write_text(SERVED)
        address = f"127.0.0.1:{free_port()}"
        server = self.launch("-n", "1", "--restart", "--", PACELINE, "serve", "served.toml", "--listen", address, "--workers", "3", "--state", "state")
        self.assertEqual(server.stdout.readline(), f"[0] listening on {address}\n")
        run = self.launch("-n", "3", "--restart", "--", PACELINE, "train", "served.toml", "--servers", address, "--out", "run", "--quiet")
        for number, (parent, rank) in enumerate(((run, 2), (server, 0), (run, 0))):
            before = self.steps("run")
            self.wait_until(lambda: self.steps("run") > before + 1, run, f"step {number}")
            self.kill(parent, f"PACELINE_RANK={rank}", "PACELINE_RESTARTS=0")
        errors = self.finish(run)
        for rank in (0, 2):
            self.assertRegex(errors, rf"paceline: rank {rank} on host \S+ was killed by signal 9 \(Killed\): it is started again \(1 of 10\)")
        self.assertNotIn("rank 1 on host", errors)
        self.assertIn("it is started again (1 of 10)", self.finish(server))
        self.assertEqual(self.summary("run")["samples"], 12000)
        self.assertEqual(self.summary("run")["ranks"], 3)
        steps = [line["step"] for line in self.metrics("run") if line["kind"] == "train"]
        self.assertEqual(steps, sorted(set(steps)))  # the second chief went on with the first one's lines

    def test_a_mistake_in_the_recipe_is_not_tried_again(self):
        (self.folder / "wrong.toml").write_text("[model]\nname = \"no_such_model\"\n")
        errors = self.finish(self.launch("-n", "2", "--restart", "--", PACELINE, "train", "wrong.toml", "--out", "wrong"), code=3)
        self.assertNotIn("started again", errors)

    def test_what_is_missing_is_named(self):
        errors = self.finish(self.launch("-n", "2", "--restart=3", "--", PACELINE, "train", "small.toml"), code=2)
        self.assertIn("give --out DIR", errors)
        (self.folder / "served.toml").write_text(SERVED)
        errors = self.finish(self.launch("-n", "2", "--", PACELINE, "train", "served.toml", "--out", "run"), code=2)
        self.assertIn("say where with --servers", errors)
        errors = self.finish(self.launch("-n", "2", "--restart", "--engine", "mpi", "--", "true"), code=2)
        self.assertIn("--restart does not go with --engine mpi", errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
