"""TensorBoard reads a run's event files and finds exactly what its metrics.jsonl holds.

usage: read_events.py RUN_FOLDER
"""

import json
import pathlib
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def as_float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def recorded(folder):
    """{tag: [(step, value)]}; null, which was not finite, is None."""
    points = {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line, parse_constant=lambda word: sys.exit(f"not JSON: {word}"))
        kind, step = record.pop("kind"), record.pop("step")
        assert kind in ("train", "test", "layer"), kind
        del record["epoch"], record["seconds"]
        tag = f"layer/{record.pop('layer')}" if kind == "layer" else kind
        for name, value in record.items():
            points.setdefault(f"{tag}/{name}", []).append((step, None if value is None else as_float32(value)))
    return points


def read_by_tensorboard(folder):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})  # 0: every point
    events.Reload()
    finite = lambda value: value if abs(value) < float("inf") else None
    return {tag: [(e.step, finite(e.value)) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    expected, found = recorded(folder), read_by_tensorboard(folder)
    assert expected, f"{folder}/metrics.jsonl holds no values"
    assert sorted(found) == sorted(expected), (sorted(found), sorted(expected))
    for tag, points in expected.items():
        assert found[tag] == points, f"{tag}: TensorBoard reads {found[tag][:5]}..., recorded was {points[:5]}..."
    print(f"{sum(map(len, expected.values()))} points of {len(expected)} tags are the same")


if __name__ == "__main__":
    main()
