"""What tests of runs on a parameter server share: a small recipe, the processes of a run, and the weights that it has left."""

import json
import pathlib
import struct

SMALL = """
[model]
name = "small_cnn"

[data]
name = "synthetic"
train_samples = 2000
test_samples = 200
channels = 1
image_size = 28

[batch]
global = 64

[train]
epochs = 1
threads = 1
"""


def child_of(parent, *signs):
    """The child with all of these variables ("PACELINE_WORKER=2") in its environment, or options ("--shard=0/2") among its arguments; None: there is none."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            found = (folder / "environ").read_bytes().split(b"\0") + [b"=".join(pair) for pair in zip(words, words[1:])]
            if f"PPid:\t{parent.pid}\n" in (folder / "status").read_text() and all(sign.encode() in found for sign in signs):
                return int(folder.name)
        except OSError:
            pass
    return None


def read_weights(run, of=lambda name: "running_" not in name and "num_batches" not in name):
    """Without batch statistics: which worker has which share is chance."""
    newest = sorted((run / "checkpoints").iterdir())[-1] / "weights.safetensors"
    data = newest.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    weights = {}
    for name, entry in header.items():
        if name == "__metadata__" or not of(name):
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        weights[name] = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return weights


def largest_difference(one, other):
    """Relative to each tensor's largest number."""
    assert one.keys() == other.keys()
    return max(max(abs(a - b) for a, b in zip(one[name], other[name])) / (max(map(abs, one[name])) or 1) for name in one)
