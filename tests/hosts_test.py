"""Ranks on two hosts: shared memory within a host and the network between them, without being told.

usage: hosts_test.py GROUP_PROGRAM
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())

import hosts  # noqa: E402
from rank_processes import Ranks  # noqa: E402


@unittest.skipUnless(hosts.possible(), "needs the right to make network namespaces")
class HostsTest(unittest.TestCase):
    def run_on_two_hosts(self, scenario, ranks_of_hosts, engine="auto"):
        """Ranks in the order of the list: [0, 0, 1] are two on the first host and one on the second."""
        with hosts.TwoHosts() as two:
            ranks = Ranks([PROGRAM, engine, scenario], len(ranks_of_hosts), timeout_s=20, MASTER_ADDR=two.addresses[0],
                          prefix_of_rank=lambda rank: two.command(ranks_of_hosts[rank]))
            try:
                return ranks.wait()
            finally:
                ranks.close()

    def test_the_mixed_engine_is_used_without_being_told(self):
        outcomes = self.run_on_two_hosts("where", [0, 0, 1, 1])
        self.assertEqual([outcome.out for outcome in outcomes],
                         [f"rank {rank} of 4 on host {rank // 2} of 2, engine shm+gloo\n" for rank in range(4)],
                         outcomes)

    def test_one_rank_per_host_needs_no_shared_memory(self):
        outcomes = self.run_on_two_hosts("where", [0, 1])
        self.assertEqual(outcomes[1].out, "rank 1 of 2 on host 1 of 2, engine gloo\n", outcomes)

    def test_every_algorithm_gives_the_right_sums_on_equal_unequal_and_interleaved_hosts(self):
        for placing in ([0, 0, 1, 1], [0, 0, 0, 1], [0, 1, 0, 1]):
            with self.subTest(placing=placing):
                outcomes = self.run_on_two_hosts("sums", placing)
                self.assertEqual([outcome.code for outcome in outcomes], [0] * 4, outcomes)
                self.assertEqual(len({outcome.out for outcome in outcomes}), 1, "the same bits on every rank")

    def test_a_rank_killed_on_the_other_host_is_named(self):
        outcomes = self.run_on_two_hosts("killed", [0, 1, 1])
        for rank in (0, 2):
            self.assertRegex(outcomes[rank].error, r"in group 'world\S*' cannot finish: rank \d died", outcomes)

    def test_a_network_that_is_cut_is_no_death(self):
        """Rank 1 pauses on the first host; rank 0 there and rank 2 on the second one wait for it."""
        with hosts.TwoHosts() as two:
            ranks = Ranks([PROGRAM, "gloo", "never_arrives"], 3, timeout_s=40, MASTER_ADDR=two.addresses[0],
                          prefix_of_rank=lambda rank: two.command(rank // 2))
            try:
                connected = f"ip netns exec {two.names[1]} ss -Htn state established dst {two.addresses[0]}".split()
                while len(subprocess.run(connected, capture_output=True,
                                         text=True).stdout.splitlines()) < 4:  # store, watchdog, Gloo twice
                    self.assertIsNone(ranks.processes[0].poll(), "ended too early")
                subprocess.run(["ip", "-n", two.names[1], "link", "set", "eth0", "down"], check=True)
                outcomes = ranks.wait(until=[0, 2])
            finally:
                ranks.close()
            cut = r"any more \(the network to its host is cut, or that host is down\)"
            self.assertRegex(outcomes[0].error, rf"no connection to rank 2 {cut}")
            self.assertRegex(outcomes[2].error, rf"no connection to the rendezvous store at \S+ {cut}")
            for rank in (0, 2):
                self.assertEqual(outcomes[rank].err.count("no connection to"), 1, outcomes[rank].err)
                self.assertNotIn("its process died", outcomes[rank].err)

    def test_a_host_whose_own_name_means_loopback_is_reached_all_the_same(self):
        """Debian and Ubuntu have "127.0.1.1 NAME" in /etc/hosts; torchrun and srun tell every rank the name."""
        with hosts.TwoHosts() as two, tempfile.NamedTemporaryFile("w") as table:
            table.write("127.0.0.1 localhost\n127.0.1.1 first\n")
            table.flush()
            os.chmod(table.name, 0o644)
            own_table = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', table.name]
            placing = [0, 0, 1]
            ranks = Ranks([PROGRAM, "gloo", "where"], 3, timeout_s=20, MASTER_ADDR="first", LOCAL_WORLD_SIZE="2",
                          of_rank={2: {
                              "MASTER_ADDR": two.addresses[0],
                              "LOCAL_RANK": "0",
                              "LOCAL_WORLD_SIZE": "1"
                          }}, prefix_of_rank=lambda rank: two.command(placing[rank]) + (own_table
                                                                                        if placing[rank] == 0 else []))
            try:
                outcomes = ranks.wait()
            finally:
                ranks.close()
            self.assertEqual([outcome.out for outcome in outcomes],
                             [f"rank {rank} of 3 on host {placing[rank]} of 2, engine gloo\n" for rank in range(3)],
                             outcomes)

    def test_shared_memory_alone_cannot_serve_two_hosts(self):
        outcomes = self.run_on_two_hosts("where", [0, 1], engine="shm")
        self.assertEqual(outcomes[0].error, "the shm engine serves one host; this run has 2: use shm+gloo (or auto)")


if __name__ == "__main__":
    unittest.main()
