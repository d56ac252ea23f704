"""paceline recipe plot: the picture and the table of what a recipe plans, without data and without training."""

import re
import sys
import unittest
import xml.etree.ElementTree as ElementTree

from paceline_process import SOURCE, ProcessTest

SVG = "{http://www.w3.org/2000/svg}"


class RecipePlotTest(ProcessTest):
    def plot(self, *arguments):
        result = self.run_paceline("recipe", "plot", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        return result.stdout

    def fails(self, code, text, *arguments):
        result = self.run_paceline("recipe", "plot", *arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(text, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1)

    def test_the_table_has_a_row_for_each_phase(self):
        table = re.sub(" +", " ", self.plot(SOURCE / "recipes/mikami_exp3.toml"))
        self.assertIn("mikami_exp3: 90 epochs in 1,920 steps on 3,456 ranks, 1,281,167 samples in an epoch\n", table)
        self.assertIn("\n epochs batch ranks x share rate momentum steps\n"
                      " 0 to 5 55,296 3,456 x 16 0.2 to 29 0.9407 120\n"
                      " 5 to 30 55,296 3,456 x 16 25.87 to 12.89 0.9407 600\n"
                      " 30 to 90 65,536 2,048 x 32 22.22 to 0 0.95 1,200\n", table)
        self.assertIn("plot written to mikami_exp3.svg\n", table)

    def test_the_picture_is_xml_with_three_curves_from_the_first_epoch_to_the_last(self):
        self.plot(SOURCE / "recipes/mikami_exp3.toml")
        root = ElementTree.parse(self.folder / "mikami_exp3.svg").getroot()
        self.assertEqual(root.tag, SVG + "svg")
        panels = root.findall(SVG + "g")
        ends = []
        for panel in panels:
            line = next(path for path in panel.findall(SVG + "path") if path.get("stroke") == "#0072b2").get("d")
            points = [tuple(map(float, point.split())) for point in re.split("[ML]", line)[1:]]
            ends.append((points[0], points[-1]))
        # Panels go from 64 to 740 and from 182 up to 44; their axes from 0 to 30, 0.94 to 0.95, 55,000 to 70,000.
        self.assertEqual(ends, [((64, 181.1), (740, 182)), ((64, 171.8), (740, 44)), ((64, 179.3), (740, 85.1))])
        texts = [text.text for text in root.iter(SVG + "text")]
        for text in ("Learning rate", "Momentum", "Samples in a global batch", "epoch", "30", "90"):
            self.assertIn(text, texts)

    def test_every_published_recipe_can_be_plotted(self):
        recipes = sorted((SOURCE / "recipes").glob("*.toml"))
        self.assertTrue(recipes)
        for recipe in recipes:
            self.assertIn(f"plot written to {recipe.stem}.svg", self.plot(recipe))
            ElementTree.parse(self.folder / f"{recipe.stem}.svg")

    def test_ranks_and_set_decide_the_batch(self):
        table = re.sub(" +", " ", self.plot("small.toml", "--ranks", "4", "--set", "batch.local=16", "--out", "plan.svg"))
        self.assertIn(" 1 to 6.25 64 4 x 16 ", table)
        self.assertTrue((self.folder / "plan.svg").exists())
        self.assertFalse((self.folder / "small.svg").exists())

    def test_errors_are_one_line_and_leave_nothing(self):
        self.fails(3, "missing.toml", "missing.toml")
        (self.folder / "data.toml").write_text('[data]\nname = "cifar11"\n')
        self.fails(3, "data.toml:2:1: data.name: there is no data set 'cifar11'; did you mean 'cifar10'?", "data.toml")
        self.fails(5, "nowhere/plan.svg", "small.toml", "--out", "nowhere/plan.svg")
        self.assertEqual(list(self.folder.glob("*.svg*")), [])

    def test_help_says_what_it_does(self):
        result = self.run_paceline("recipe", "plot", "--help")
        self.assertEqual(result.returncode, 0)
        for word in ("--out", "--ranks", "--set", "recipes/mikami_exp1.toml"):
            self.assertIn(word, result.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
