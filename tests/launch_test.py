"""paceline launch as people call it: its command line, its exit codes, several hosts, Ctrl-C. launch/launch_test.cc has the rest."""

import os
import pathlib
import signal
import subprocess
import sys
import unittest

from listeners import listeners_of
from paceline_process import PACELINE, ProcessTest


class LaunchTest(ProcessTest):
    def launch(self, *arguments):
        return self.run_paceline("launch", *arguments)

    def other_hosts(self):
        """A command for --rsh by which every host is this one."""
        script = self.folder / "reach"
        script.write_text('#!/bin/sh\nshift\nexec "$@"\n')
        script.chmod(0o755)
        return ["--rsh", script, "--address", "127.0.0.1"]

    def test_each_rank_knows_who_it_is_and_its_lines_say_so(self):
        result = self.launch("-n", 3, "--", "sh", "-c", "echo $PACELINE_RANK of $PACELINE_SIZE; echo oops >&2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()), ["[0] 0 of 3", "[1] 1 of 3", "[2] 2 of 3"])
        self.assertEqual(sorted(result.stderr.splitlines()), ["[0] oops", "[1] oops", "[2] oops"])

    def test_what_follows_the_dashes_is_the_programs_own(self):
        result = self.launch("-n", 1, "--no-prefix", "--", "echo", "-n", "5", "--agent", "--", "--hosts", "x")
        self.assertEqual((result.returncode, result.stdout), (0, "5 --agent -- --hosts x\n"))

    def test_settings_reach_the_ranks(self):
        result = self.launch("-n", 1, "--engine", "shm", "--timeout", "2.5", "--", "sh", "-c",
                             "echo $PACELINE_ENGINE $PACELINE_TIMEOUT")
        self.assertEqual(result.stdout, "[0] shm 2.5\n")

    def test_a_rank_may_be_paceline(self):
        result = self.launch("-n", 2, "--", PACELINE, "--version")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"^(\[[01]\] paceline \d+\.\d+\.\d+\n){2}$")

    def test_it_exits_as_the_failed_rank_did(self):
        result = self.launch("-n", 2, "--", "sh", "-c",
                             "echo why >&2; [ $PACELINE_RANK = 1 ] && exit 3; exec sleep 1000")
        self.assertEqual(result.returncode, 3)
        self.assertRegex(result.stderr, r"paceline: rank 1 on host \S+ exited with code 3; the other ranks were "
                                        r"ended\n"
                                        r"Its last lines on standard error:\n  why\n$")
        self.assertEqual(self.launch("-n", 1, "--", "sh", "-c", "kill -9 $$").returncode, 137)

    def test_usage_errors_exit_with_2(self):
        for arguments, text in ((["-n", "0", "--", "true"], "--ranks"),
                                (["--", "true"], "-n N"),
                                (["-n", "2"], "say what to run"),
                                (["-n", "3", "--hosts", "localhost:2", "--", "true"], "-n says 3 ranks"),
                                (["--hosts", "a:x", "--", "true"], "a:x"),
                                (["-n", "2", "--", "no-such-program"], "cannot run 'no-such-program'"),
                                (["-n", "2", "train", "small.toml"], "did you mean 'paceline train'?")):
            with self.subTest(arguments):
                result = self.launch(*arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(text, result.stderr)
                self.assertEqual(result.stdout, "")

    def test_other_hosts_run_this_very_program_as_their_agent(self):
        result = self.launch("--hosts", "a:2,localhost:1", *self.other_hosts(), "--", "sh", "-c",
                             "echo $PACELINE_LOCAL_RANK; pwd -P")
        self.assertEqual(result.returncode, 0, result.stderr)
        folder = self.folder.resolve()
        self.assertEqual(sorted(result.stdout.splitlines()),
                         sorted(["[0] 0", "[1] 1", "[2] 0", f"[0] {folder}", f"[1] {folder}", f"[2] {folder}"]))

    def test_a_host_that_cannot_be_reached_exits_with_7(self):
        result = self.launch("--hosts", "a", "--rsh", "false", "--address", "127.0.0.1", "--", "true")
        self.assertEqual(result.returncode, 7)
        self.assertIn("cannot start ranks on host a: 'false a ", result.stderr)

    def test_a_host_that_nobody_knows_is_first_of_all_a_typing_error(self):
        result = self.launch("--hosts", "nohost.invalid:2", "--", "true")
        self.assertEqual(result.returncode, 7)
        self.assertRegex(result.stderr, r"^paceline: host nohost\.invalid: .*; is its name spelt right\?")

    def test_words_that_are_not_utf_8_arrive_unchanged_on_other_hosts(self):
        result = self.launch("--hosts", "a:1", *self.other_hosts(), "--", "sh", "-c", 'printf %s "$1" | od -An -tx1',
                             "sh", os.fsdecode(b"caf\xe9"))
        self.assertEqual((result.returncode, result.stdout), (0, "[0]  63 61 66 e9\n"), result.stderr)

    def test_too_few_open_files_are_told_before_anything_is_started(self):
        for limit, arguments in ((20, ["-n", "8"]), (32, ["-n", "8"]), (32, ["-n", "2", "--engine", "mpi"])):
            with self.subTest(limit=limit, arguments=arguments):
                ended = subprocess.run(
                    ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", PACELINE, "launch", *arguments, "--", "true"],
                    cwd=self.folder, capture_output=True, text=True, timeout=60)
                self.assertEqual(ended.returncode, 2, ended.stderr)
                self.assertRegex(
                    ended.stderr,
                    rf"^paceline: a run of . rank\(s\) needs \d+ open files, and this process may have {limit}: "
                    r"raise the limit with 'ulimit -n \d+'\n$")

    def test_a_run_on_one_host_listens_on_the_loopback_alone(self):
        process = self.start_paceline("launch", "-n", "2", "--", "sleep", "1000")
        try:
            while not (found := listeners_of(process.pid)):
                self.assertIsNone(process.poll(), "ended too early")
            self.assertEqual({host for host, _ in found}, {"127.0.0.1"})
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)

    def test_a_folder_that_holds_a_run_is_refused_once(self):
        (self.folder / "before").mkdir()
        (self.folder / "before" / "recipe.toml").write_text("")
        result = self.run_paceline("train", "small.toml", "--ranks", 3, "--out", "before")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(
            result.stderr,
            "paceline: before holds a run already; add --resume to go on with it, or choose another --out\n")

    def test_ctrl_c_reaches_every_rank(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number):
                script = "trap 'echo saved; exit 0' INT TERM; echo ready; while :; do sleep 1000 > /dev/null 2>&1 & wait; done"
                process = self.start_paceline("launch", "--hosts", "localhost:1,a:1", *self.other_hosts(), "--", "sh",
                                              "-c", script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertEqual({process.stdout.readline(), process.stdout.readline()}, {"[0] ready\n", "[1] ready\n"})
                process.send_signal(number)
                output, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, code, errors)
                self.assertEqual(sorted(output.splitlines()), ["[0] saved", "[1] saved"])

    def test_under_nohup_it_and_its_ranks_outlive_the_terminal(self):
        process = self.start_paceline("launch", "-n", "1", "--", "sh", "-c",
                                      "echo ready; kill -HUP $PPID $$; echo went on", stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True,
                                      preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        output, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, output), (0, "[0] ready\n[0] went on\n"), errors)

    def test_it_ends_where_its_own_streams_are_closed(self):
        for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed):
                program = "'echo said > said.$PACELINE_RANK; echo out; echo oops >&2'"
                ended = subprocess.run(["sh", "-c", f'"$0" launch -n 2 -- sh -c {program} {closed}', PACELINE],
                                       cwd=self.folder, timeout=60)
                self.assertEqual(ended.returncode, 0)
                for rank in range(2):
                    said = self.folder / f"said.{rank}"
                    self.assertEqual(said.read_text(), "said\n")
                    said.unlink()

    def test_the_secret_is_neither_printed_nor_in_a_command_line(self):
        process = self.start_paceline("launch", "--hosts", "localhost:1,a:1", *self.other_hosts(), "--", "sh", "-c",
                                      "echo $PACELINE_SECRET > secret.$PACELINE_RANK; echo ready; exec sleep 1000",
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        seen = process.stdout.readline() + process.stdout.readline()
        secret = (self.folder / "secret.0").read_text().strip()
        self.assertRegex(secret, "^[0-9a-f]{64}$")
        self.assertEqual((self.folder / "secret.1").read_text().strip(), secret)
        for command_line in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                self.assertNotIn(secret, command_line.read_text(errors="replace"))
            except OSError:
                pass  # it has ended
        os.kill(process.pid, signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
        self.assertNotIn(secret, seen + output + errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
