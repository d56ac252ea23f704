"""Two hosts on one machine: network namespaces, joined by a link of a known bandwidth. Needs root."""

import os
import subprocess
import sys

from rank_processes import Ranks


def run(command):
    subprocess.run(command.split(), check=True, capture_output=True, text=True)


def possible():
    name = f"paceline-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)
    return made


class TwoHosts:
    """As a context: namespaces `self.names` with addresses `self.addresses`; each may send `rate` (as tc says it) at most."""

    def __init__(self, rate="1gbit"):
        self.rate = rate
        self.names = [f"paceline-{os.getpid()}-{letter}" for letter in "ab"]
        self.addresses = ["10.77.0.1", "10.77.0.2"]

    def __enter__(self):
        try:
            for name in self.names:
                run(f"ip netns add {name}")
            run(f"ip link add eth0 netns {self.names[0]} type veth peer name eth0 netns {self.names[1]}")
            for name, address in zip(self.names, self.addresses):
                run(f"ip -n {name} address add {address}/24 dev eth0")
                run(f"ip -n {name} link set eth0 up")
                run(f"ip -n {name} link set lo up")
                run(f"ip netns exec {name} tc qdisc add dev eth0 root tbf rate {self.rate} burst 256kb latency 50ms")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)

    def command(self, host, *command):
        return ["ip", "netns", "exec", self.names[host], *command]

    def run_ranks(self, command, placing, profiles):
        """Runs the command as a rank on each host of `placing`, as torchrun would; ends the program with their errors when one fails."""
        ranks = Ranks([str(word) for word in command], len(placing), timeout_s=120, patience_s=600, MASTER_ADDR=self.addresses[0],
                      PACELINE_PROFILE_DIR=str(profiles), prefix_of_rank=lambda rank: self.command(placing[rank]))
        try:
            outcomes = ranks.wait()
        finally:
            ranks.close()
        if any(outcome.code != 0 for outcome in outcomes):
            sys.exit("\n".join(outcome.err for outcome in outcomes))
