"""Which TCP ports processes listen at, as the kernel tells."""

import os
import socket
import struct


def _sockets_of(pid):
    inodes = set()
    try:
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
            if target.startswith("socket:["):
                inodes.add(target[len("socket:["):-1])
    except OSError:
        pass  # it has ended, or the descriptor is closed again
    return inodes


def _address(text):
    """"0100007F:1F90" as ("127.0.0.1", 8080)."""
    host, port = text.split(":")
    words = b"".join(struct.pack("=I", int(host[i:i + 8], 16)) for i in range(0, len(host), 8))
    return socket.inet_ntop(socket.AF_INET if len(words) == 4 else socket.AF_INET6, words), int(port, 16)


def listeners_of(*pids):
    """{(host, port)} at which these processes listen now."""
    inodes = set().union(*map(_sockets_of, pids))
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as lines:
            for line in list(lines)[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    found.add(_address(fields[1]))
    return found
