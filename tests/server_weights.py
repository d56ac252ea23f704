"""The weights that a run has left, for tests that compare runs."""

import json
import struct


def read_weights(run):
    newest = sorted((run / "checkpoints").iterdir())[-1] / "weights.safetensors"
    data = newest.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    weights = {}
    for name, entry in header.items():
        if name == "__metadata__" or "running_" in name or "num_batches" in name:  # which worker has which share is chance
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        weights[name] = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return weights


def largest_difference(one, other):
    """Relative to each tensor's largest number."""
    assert one.keys() == other.keys()
    return max(max(abs(a - b) for a, b in zip(one[name], other[name])) / (max(map(abs, one[name])) or 1) for name in one)
