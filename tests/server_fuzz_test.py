"""A live `paceline serve` under malformed messages, while a run trains on it: the run's result is the same, and memory stays.

usage: server_fuzz_test.py PACELINE      (1,000 messages; with PACELINE_SOAK=1 it is 100,000, with another number that many)
"""

import os
import pathlib
import signal
import subprocess
import threading
import time
import unittest

from malformed_messages import HELLO, Onlooker, Recorder, Stranger
from paceline_process import PACELINE, ProcessTest
from served_runs import SMALL, largest_difference, read_weights

SOAK = int(os.environ.get("PACELINE_SOAK") or 0)
MESSAGES = 100_000 if SOAK == 1 else SOAK or 1_000
STRANGERS = 3
TOKEN = "known to all of the run"
SAMPLES = 2000  # of SMALL
RECIPE = SMALL + """
[sync]
policy = "bsp"
lease_seconds = 600
"""


class ServerFuzzTest(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "r.toml").write_text(RECIPE)
        self.environment = {**os.environ, "PACELINE_SERVER_TOKEN": TOKEN}

    def serve(self, name):
        with open(self.folder / f"{name}.txt", "w") as errors:
            server = self.start_paceline("serve", "r.toml", "--workers", "2", "--state", self.folder / f"{name}-state", stdout=subprocess.PIPE,
                                         stderr=errors, text=True, env=self.environment)
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        return server, server.stdout.readline().removeprefix("listening on ").strip()

    def start_run(self, out, address):
        run = self.start_paceline("train", "r.toml", "--servers", address, "--ranks", "2", "--out", out, "--quiet", stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env=self.environment)
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        return run

    def finish_run(self, run, server):
        output, errors = run.communicate(timeout=120)
        self.assertEqual(run.returncode, 0, output + errors)
        self.assertEqual(server.wait(timeout=60), 0)
        return errors

    def peak_bytes(self, process):
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])

    def worker_of(self, run):
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if f"PPid:\t{run.pid}\n" in (folder / "status").read_text() and b"PACELINE_WORKER=0" in (folder / "environ").read_bytes().split(b"\0"):
                    return int(folder.name)
            except OSError:
                pass
        self.fail("the run has no worker 0")

    def record_undisturbed(self):
        server, address = self.serve("undisturbed")
        recorder = Recorder(address)
        self.finish_run(self.start_run("undisturbed", recorder.address), server)
        return recorder.messages

    def train_among_strangers(self, recorded, messages, joins):
        """Trains as long as the strangers take; returns how many calls the server has ended, and the run's warnings."""
        server, address = self.serve("disturbed")
        run = self.start_run("disturbed", address)
        onlooker = Onlooker(address, TOKEN.encode(), next(head for head, _ in recorded if head[0] == HELLO and head[1] == 0))
        self.wait_until(lambda: onlooker.used_samples() > 0, run, "its first step")
        worker = self.worker_of(run)
        before = self.peak_bytes(server)
        began = time.monotonic()
        strangers = [Stranger(address, TOKEN.encode(), recorded, seed, joins) for seed in range(STRANGERS)]
        sent, failures = [0] * STRANGERS, []

        def pester(number):
            try:
                for _ in range(number, messages, STRANGERS):
                    strangers[number].send_one()
                    sent[number] += 1
            except Exception as failure:  # told below, on the test's thread
                failures.append(f"stranger {number}, message {sent[number]} of kind {strangers[number].kind}: {failure!r}")

        threads = [threading.Thread(target=pester, args=(number,), daemon=True) for number in range(STRANGERS)]
        for thread in threads:
            thread.start()
        # Training takes as long as the strangers do: its first worker waits where it gets ahead.
        while any(thread.is_alive() for thread in threads):
            ahead = onlooker.used_samples() / SAMPLES > 0.9 * sum(sent) / messages
            try:
                os.kill(worker, signal.SIGSTOP if ahead else signal.SIGCONT)
            except ProcessLookupError:
                output, errors = run.communicate(timeout=60)
                self.fail(f"after {sum(sent)} messages the run ended: {output}{errors}")
            time.sleep(0.01)
        seconds = time.monotonic() - began
        self.assertEqual(failures, [])
        after, used = self.peak_bytes(server), onlooker.used_samples()
        self.assertLess(used, SAMPLES, "the run was over before the strangers were")
        os.kill(worker, signal.SIGCONT)
        onlooker.leave()
        errors = self.finish_run(run, server)

        for stranger in strangers:
            stranger.finish()
        ended, broken_off = (sum(getattr(stranger, name) for stranger in strangers) for name in ("ended", "broken_off"))
        print(f"\n{sum(sent)} malformed messages{' of members' if joins else ''} in {seconds:.0f} s: the server ended {ended}, {broken_off} were broken off by "
              f"the sender; peak RSS {before / 2**20:.1f} MiB before, {after / 2**20:.1f} MiB after; {used} of {SAMPLES} samples used meanwhile")
        self.assertEqual(ended + broken_off, messages)
        self.assertGreater(ended, 0.8 * messages)
        self.assertLess(after, before + (64 << 20))
        self.assertEqual(self.summary("disturbed")["samples"], SAMPLES)
        # What a flood leaves in the log is bounded: refusals are counted, not listed.
        refusals = [line for line in (self.folder / "disturbed.txt").read_text().splitlines() if "refused" in line]
        self.assertGreater(len(refusals), 0)
        self.assertLess(len(refusals), 20 + 24 * (seconds + 10))
        self.assertNotIn("it calls again", errors)  # no worker lost its connection

    def test_a_run_does_not_notice_malformed_messages(self):
        recorded = self.record_undisturbed()
        self.train_among_strangers(recorded, MESSAGES, joins=False)
        self.assertEqual(self.summary("disturbed")["steps"], self.summary("undisturbed")["steps"])
        self.assertEqual(largest_difference(read_weights(self.folder / "undisturbed"), read_weights(self.folder / "disturbed")), 0)

    def test_members_that_send_nonsense_are_out_and_their_samples_are_used_by_others(self):
        """The lease is ten minutes: whoever waited for one of them would not come to an end."""
        self.train_among_strangers(self.record_undisturbed(), MESSAGES // 4, joins=True)


if __name__ == "__main__":
    unittest.main()
