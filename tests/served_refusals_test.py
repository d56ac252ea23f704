"""What a run on a parameter server refuses instead of ignoring it: options without effect.

usage: served_refusals_test.py PACELINE
"""

import unittest

from paceline_process import ProcessTest
from served_runs import SMALL

BSP = ["--set", "sync.policy=bsp"]


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


if __name__ == "__main__":
    unittest.main()
