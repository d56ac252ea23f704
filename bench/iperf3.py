"""What iperf3 measures between two ends: the bandwidth that others are compared with."""

import json
import shutil
import socket
import subprocess
import sys
import time


def require():
    if not shutil.which("iperf3"):
        sys.exit("iperf3 is missing, which this compares with: ./setup --peers installs it, or: apt-get install iperf3")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def measure(options, host="127.0.0.1", server_prefix=(), client_prefix=()):
    """The `end` of the client's report. The prefixes are commands that run a command elsewhere: ip netns exec NAME."""
    for _ in range(20):
        port = str(free_port())
        server = subprocess.Popen([*server_prefix, "iperf3", "-s", "-1", "-p", port], stdout=subprocess.DEVNULL)
        time.sleep(0.2)  # until it listens; on a busy machine that may take longer, or its report may be cut short: once more
        try:
            client = subprocess.run([*client_prefix, "iperf3", "-c", host, "-p", port, "-J", *options], capture_output=True, text=True)
            end = json.loads(client.stdout).get("end", {}) if client.stdout else {}
            if client.returncode == 0 and "sum_received" in end:
                return end
        finally:
            server.terminate()
            server.wait()
    raise RuntimeError(client.stdout + client.stderr)


def gbit_per_s(size, connections=1, reverse=False):
    """So many bytes over loopback, one way."""
    end = measure(["-n", str(size), "-P", str(connections), *(["-R"] if reverse else [])])
    return end["sum_received"]["bits_per_second"] * 1e-9


def one_way_gbit_per_s(seconds, connections, **place):
    """Towards the server, then back."""
    return tuple(measure(["-t", str(seconds), "-P", str(connections), *way], **place)["sum_received"]["bits_per_second"] * 1e-9 for way in ([], ["-R"]))
