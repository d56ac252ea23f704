"""Our safetensors files against the reference implementation (the Python package, numpy flavour), both ways.

    python3 safetensors_test.py SAFETENSORS_TOOL

A file written by the package is read and written again by ours, and read by the package: every tensor must come back with
its name, type, shape and bits. So must what the package refuses be refused by ours.
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy
import safetensors
import safetensors.numpy

TOOL = ""
DATA_ERROR = 4  # the exit code of a malformed file


def rewrite(source: pathlib.Path, target: pathlib.Path) -> subprocess.CompletedProcess:
    return subprocess.run([TOOL, "rewrite", str(source), str(target)], capture_output=True, text=True)


def contents(path: pathlib.Path) -> tuple[dict, dict]:
    """Name -> (type, shape, bytes), and the metadata. Types that numpy lacks (bf16) are compared as bytes, too."""
    tensors = {name: (info["dtype"], tuple(info["shape"]), bytes(info["data"])) for name, info in safetensors.deserialize(path.read_bytes())}
    with safetensors.safe_open(path, framework="numpy") as file:
        return tensors, file.metadata()


class Interop(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.theirs = pathlib.Path(folder.name) / "theirs.safetensors"
        self.ours = pathlib.Path(folder.name) / "ours.safetensors"

    def assert_same_after_rewriting(self):
        result = rewrite(self.theirs, self.ours)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(contents(self.ours), contents(self.theirs))

    def test_every_type_and_odd_shapes(self):
        random = numpy.random.default_rng(1)
        tensors = {
            "f64": random.standard_normal((3, 5)),
            "f32": random.standard_normal((7, 1, 3)).astype(numpy.float32),
            "f32.special": numpy.array([0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 1e-45], numpy.float32),
            "f16": random.standard_normal(9).astype(numpy.float16),
            "i64": numpy.array([-(2**63), 2**63 - 1]),
            "i32": numpy.array([[-(2**31)], [2**31 - 1]], numpy.int32),
            "u8": numpy.arange(255, dtype=numpy.uint8),
            "bool": numpy.array([True, False, True]),
            "scalar": numpy.array(3, numpy.int64),
            "empty": numpy.zeros((4, 0), numpy.float32),
            'ünïcode "quoted" \\': numpy.ones(1, numpy.float32),
        }
        safetensors.numpy.save_file(tensors, self.theirs, {"step": "17", "ü": "\n"})
        self.assert_same_after_rewriting()
        for name, tensor in safetensors.numpy.load_file(self.ours).items():
            self.assertEqual(tensor.dtype, tensors[name].dtype, name)
            numpy.testing.assert_array_equal(tensor, tensors[name], name)

    def test_bfloat16(self):
        self.write({"x": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}, bytes(range(6)))
        self.assert_same_after_rewriting()

    def test_no_tensors(self):
        safetensors.numpy.save_file({}, self.theirs)
        self.assert_same_after_rewriting()

    def test_what_the_package_refuses_is_refused(self):
        good = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}
        malformed = {
            "hole": ({"a": good, "b": {**good, "data_offsets": [5, 9]}}, 9),
            "overlap": ({"a": good, "b": {**good, "data_offsets": [2, 6]}}, 6),
            "cut off": ({"a": good}, 3),
            "too long": ({"a": good}, 5),
            "shape": ({"a": {**good, "shape": [5]}}, 4),
            "type": ({"a": {**good, "dtype": "U7"}}, 4),
            "no list": ({"a": {**good, "shape": 4}}, 4),
            "metadata": ({"__metadata__": {"step": 1}, "a": good}, 4),
        }
        for case, (header, size) in malformed.items():
            with self.subTest(case):
                self.write(header, bytes(size))
                with self.assertRaises(safetensors.SafetensorError):
                    safetensors.numpy.load_file(self.theirs)
                result = rewrite(self.theirs, self.ours)
                self.assertEqual(result.returncode, DATA_ERROR, result.stderr)
                self.assertIn(self.theirs.name, result.stderr)

    def write(self, header: dict, data: bytes):
        text = json.dumps(header).encode()
        self.theirs.write_bytes(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    TOOL = sys.argv.pop(1)
    unittest.main()
