"""What a run on a parameter server refuses instead of ignoring it: options without effect, processes with other data.

usage: served_refusals_test.py PACELINE
"""

import struct
import subprocess
import unittest

from paceline_process import PACELINE, ProcessTest
from served_runs import SMALL

BSP = ["--set", "sync.policy=bsp"]


def idx(*sizes, values):
    return bytes([0, 0, 8, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes) + bytes(values)


class ServedRefusalsTest(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "r.toml").write_text(SMALL)

    def refusal(self, *arguments, code=2, recipe="r.toml"):
        done = self.run_paceline("train", recipe, "--out", "refused", *BSP, *arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertFalse((self.folder / "refused" / "checkpoints").exists())
        return done.stderr

    def test_options_of_servers_that_run_already_are_refused_where_a_run_starts_its_own(self):
        for option in (["--run", "x"], ["--insecure"], ["--certs", "nowhere"]):
            with self.subTest(option=option[0]):
                text = self.refusal(*option)
                self.assertIn(f"{option[0]} is for servers that run already; ", text)
                self.assertIn(f"leave {option[0]} out, or start servers with 'paceline serve ... {option[0]}'", text)

    def test_an_engine_is_refused_where_servers_sum(self):
        for servers in ([], ["--servers", "127.0.0.1:7000"]):
            with self.subTest(servers=servers):
                self.assertIn('with sync.policy = "bsp" they travel to a parameter server, in one way only: leave '
                              "--engine out", self.refusal("--engine", "gloo", *servers))

    def test_processes_with_other_data_of_the_same_size_are_refused(self):
        (self.folder / "files.toml").write_text('[model]\nname = "small_cnn"\n[data]\nname = "mnist"\n'
                                                '[batch]\nglobal = 16\n[train]\nepochs = 1\nthreads = 1\n')
        for folder, first in (("one", 0), ("other", 1)):  # the value of the first pixel
            (self.folder / folder).mkdir()
            for part, count in (("train", 64), ("t10k", 16)):
                pixels = [first] + [(7 * pixel) % 256 for pixel in range(1, count * 784)]
                labels = [image % 10 for image in range(count)]
                root = self.folder / folder
                (root / f"{part}-images-idx3-ubyte").write_bytes(idx(count, 28, 28, values=pixels))
                (root / f"{part}-labels-idx1-ubyte").write_bytes(idx(count, values=labels))
        server = subprocess.Popen([PACELINE, "serve", "files.toml", *BSP, "--workers", "1", "--set", "data.root=one",
                                   "--state", self.folder / "state"], cwd=self.folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        address = server.stdout.readline().removeprefix("listening on ").strip()
        text = self.refusal("--servers", address, "--set", "data.root=other", recipe="files.toml", code=7)
        self.assertIn("the training data differ: training samples, pixels and labels (digest ", text)
        self.assertIn("; give servers and workers the same files (data.root may differ)", text)
        summary = self.train("same", *BSP, "--servers", address, "--set", "data.root=one", recipe="files.toml")
        self.assertEqual(summary["samples"], 64)
        self.assertEqual(server.wait(timeout=60), 0)


if __name__ == "__main__":
    unittest.main()
