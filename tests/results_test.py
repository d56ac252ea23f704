"""docs/results/seeds.md has a row for every table and figure of the sources.

usage: results_test.py SOURCE_FOLDER
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()

IDS = """Lu-F3.1 Lu-F3.2 Lu-F3.3 Lu-F3.4 Lu-F3.5 Lu-F3.7 Lu-T3.4 Lu-T3.5 Lu-T3.7 Lu-future Mik-T1 Mik-T3 Mik-T5 Mik-T6 Jia-1 Jia-2 Jia-3 Jia-4
Sax-1 Sax-2 Sax-3 Sax-4 Sax-5 Sax-6 Sax-7 Zha-F1 Zha-F2 Zha-F4 Zha-F5 Zha-F6 Zha-T2 Zha-T3 Zha-T4 Zha-F8 Zha-F15""".split()


class ResultsTest(unittest.TestCase):
    def test_every_row_of_the_sources_is_there_and_says_something(self):
        rows = dict(re.findall(r"^\| ([A-Z][a-z]+-[A-Za-z0-9.]+)[^|]*\|[^|]+\|([^|]+)\|$", (ROOT / "docs/results/seeds.md").read_text(), re.M))
        self.assertEqual(sorted(rows), sorted(IDS))
        for name, ours in rows.items():
            self.assertTrue(ours.strip(), name)

    def test_every_file_of_results_is_in_the_list(self):
        listed = (ROOT / "docs/results/README.md").read_text()
        for file in (ROOT / "docs/results").glob("*.md"):
            if file.name != "README.md":
                self.assertIn(f"`{file.name}`", listed)


if __name__ == "__main__":
    unittest.main()
