"""The tree keeps its shape: includes go downwards, foreign headers stay in one place, files stay short.

usage: tree_test.py SOURCE_FOLDER
"""

import os
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()

# A folder may include only itself and folders before it.
FOLDERS = [
    "core", "metrics", "schedule", "kernels", "codecs", "data", "comm", "rendezvous", "launch", "collectives", "sync",
    "ps", "sim", "precision", "optim", "models", "gradients", "pipeline", "train", "serving", "cli"
]
TORCH_BEGINS = "precision"

# Foreign headers and the only files that may include them.
FOREIGN = {
    r"toml\+\+/": ["core/recipe_parse.cc"],
    r"spdlog/": ["core/log.cc"],
    r"openssl/": ["core/sha256.cc", "core/hmac.cc", "ps/certificates.cc"],
    r"zlib\.h": ["data/idx.cc", "data/idx_test.cc"],
    r"CLI/": ["cli/*"],
    r"jpeglib\.h": ["data/jpeg.cc", "data/test_jpeg.h"],
    r"mpi\.h": ["comm/engine_mpi.cc"],
    r"nccl\.h": ["comm/nccl_communicator.cc"],
    r"cuda_": ["kernels/*.cu", "kernels/device_*.h"],
    r"gloo/": ["comm/engine_gloo.cc", "comm/gloo_connections.*"],
    r"grpc": ["ps/transport_grpc*"],
    r"simgrid/": ["sim/smpi/*"],
}
PUBLIC = ["data_parallel.h", "command_line.h"]  # headers beside the folders: the stable names of what lies in them
LONGEST_FILE = 400  # lines: past this, look for the second noun


def sources():
    for path in sorted((ROOT / "paceline").rglob("*")):
        if path.suffix in (".h", ".cc", ".cu") and path.name not in PUBLIC:
            yield path.relative_to(ROOT / "paceline"), path.read_text()


def includes(text):
    return re.findall(r'^\s*#\s*include\s*[<"]([^">]+)[">]', text, re.M)


class TreeTest(unittest.TestCase):
    maxDiff = None

    def test_every_folder_has_its_place_in_the_order(self):
        for path, _ in sources():
            self.assertIn(path.parts[0], FOLDERS, f"{path}: add its folder to FOLDERS, where it belongs")

    def test_names_are_defined_once(self):
        """Two classes of one name in one program: the linker keeps one of them, and says nothing."""
        places = {}
        for path, text in sources():
            visible = re.sub(r"^namespace \{$.*?^\}  // namespace$", "", text, flags=re.M | re.S)
            if path.suffix == ".h" or not path.stem.endswith("_test"):
                for name in re.findall(
                        r"^(?:class|struct|union|enum class|enum)\s+(?:alignas\([^)]*\)\s+)?(\w+)\b(?!\(|::)[^;{]*\{",
                        visible, re.M):
                    places.setdefault(name, []).append(str(path))
        self.assertEqual({name: where for name, where in places.items() if len(where) > 1}, {})

    def test_every_page_is_listed(self):
        for index in ("docs", "docs/results"):
            listed = (ROOT / index / "README.md").read_text()
            missing = [
                page.name for page in sorted((ROOT / index).glob("*.md"))
                if page.name != "README.md" and page.name not in listed
            ]
            self.assertEqual(missing, [], f"{index}/README.md: give each a line")
        broken = [
            link for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / "docs/README.md").read_text())
            if not (ROOT / "docs" / link).exists()
        ]
        self.assertEqual(broken, [], "docs/README.md leads to pages that are not there")

    def test_includes_go_downwards(self):
        wrong = []
        for path, text in sources():
            for header in includes(text):
                if header.startswith("paceline/"):
                    parts = header.split("/")
                    if len(parts) > 2 and FOLDERS.index(parts[1]) > FOLDERS.index(path.parts[0]):
                        wrong.append(f"{path} includes {header}")
        self.assertEqual(wrong, [])

    def test_the_own_headers_are_included_by_their_full_name(self):
        wrong = [f"{path}: {header}" for path, text in sources() for header in re.findall(r'#include "([^"]+)"', text)
                 if not header.startswith("paceline/")]
        self.assertEqual(wrong, [])

    def test_foundations_and_communication_know_nothing_of_torch(self):
        line = FOLDERS.index(TORCH_BEGINS)
        wrong = [f"{path} includes {header}" for path, text in sources() if FOLDERS.index(path.parts[0]) < line
                 for header in includes(text) if header.split("/")[0] in ("torch", "ATen", "c10")]
        self.assertEqual(wrong, [])

    def test_foreign_headers_stay_in_one_place(self):
        wrong = []
        for path, text in sources():
            for header in includes(text):
                for foreign, places in FOREIGN.items():
                    if re.match(foreign, header) and not any(path.match(place) for place in places):
                        wrong.append(f"{path} includes {header}; only {', '.join(places)} may")
        self.assertEqual(wrong, [])

    def test_files_stay_short(self):
        long = [f"{path}: {lines} lines" for path, text in sources() if (lines := text.count("\n")) > LONGEST_FILE]
        self.assertEqual(long, [])

    def test_gradients_are_computed_in_one_place(self):
        """Beside DataParallel, which trains the modules of other programs."""
        places = ["train/gradient_pass.cc", "gradients/data_parallel.cc"]
        wrong = [
            str(path) for path, text in sources()
            if not path.stem.endswith("_test") and str(path) not in places
            and re.search(r"^(?!\s*//).*[)\w]\.backward\(\)(?! was)", text, re.M)
        ]
        self.assertEqual(wrong, [])

    def test_the_trainer_asks_no_strategy_what_it_is(self):
        """What differs between ways to train together lies in train/strategies/."""
        text = (ROOT / "paceline/train/trainer.cc").read_text()
        names = ["local_sgd", "stale_allreduce", "adaptive_k", "sync.policy"]
        self.assertEqual([name for name in names if name in text], [])
        self.assertEqual(re.findall(r"if \((?:average|stale|device_step|own_group)_", text), [])

    def test_no_stateful_random_generators(self):
        wrong = [
            str(path) for path, text in sources()
            if re.search(r"std::(mt19937|minstd|default_random|random_device)|\brand\(", text)
        ]
        self.assertEqual(wrong, [])

    def test_benchmarks_can_be_started_by_their_path(self):
        """As the documents start them. Peers are started by the benchmark that compares them, with the Python that has torch."""
        wrong = []
        for script in sorted((ROOT / "bench").rglob("*.py")):
            text = script.read_text()
            if '"__main__"' in text and script.parent.name != "peers":
                if not os.access(script, os.X_OK) or not text.startswith("#!/usr/bin/env python3\n"):
                    wrong.append(f"{script.relative_to(ROOT)}: chmod +x, and begin it with #!/usr/bin/env python3")
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
