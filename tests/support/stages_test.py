#!/usr/bin/env python3
"""What .ci/stages.py says of stages that take longer than they did."""
import importlib.machinery
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ci = pathlib.Path(__file__).resolve().parents[2] / ".ci"
stages = importlib.machinery.SourceFileLoader("stages", str(ci / "stages.py")).load_module()

RECORDED = {"build": 500.0, "tests": 600.0, "lint": 800.0, "main job": 100.0, "gate": 10.0}


def said_of(stage, lines):
    return next(line for line in lines if line.startswith(stage))


class Stages(unittest.TestCase):
    def test_one_that_has_grown_by_a_fifth_says_so(self):
        lines = stages.table({**RECORDED, "build": 650.0}, set(), RECORDED)
        self.assertIn("grown: 1.30", said_of("build", lines))
        self.assertNotIn("grown", "".join(line for line in lines if not line.startswith("build")))

    def test_a_machine_of_half_the_speed_is_no_growth(self):
        twice = {name: 2 * seconds for name, seconds in RECORDED.items()}
        self.assertNotIn("grown:", "\n".join(stages.table(twice, set(), RECORDED)))
        self.assertIn("grown: 1.40", said_of("tests", stages.table({**twice, "tests": 1680.0}, set(), RECORDED)))

    def test_a_few_seconds_are_no_growth(self):
        self.assertNotIn("grown", said_of("gate", stages.table({**RECORDED, "gate": 25.0}, set(), RECORDED)))

    def test_a_part_is_not_held_against_the_whole(self):
        lines = stages.table({**RECORDED, "lint": 4000.0}, {"lint"}, RECORDED)
        self.assertIn("what the change touches", said_of("lint", lines))

    def test_a_new_stage_has_no_record(self):
        self.assertRegex(said_of("more", stages.table({**RECORDED, "more": 90.0}, set(), RECORDED)), r" -$")

    def test_times_are_read_with_their_parts(self):
        with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
            file.write("# a comment\n12\tbuild\n34\tlint\tpart\n")
            file.flush()
            self.assertEqual(stages.read(pathlib.Path(file.name)), ({"build": 12.0, "lint": 34.0}, {"lint"}))


if __name__ == "__main__":
    unittest.main()
