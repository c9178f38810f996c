#!/usr/bin/env python3
"""What scripts/affected_units and scripts/affected_tests choose after changes of a small repository."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
FILES = {
    "CMakeLists.txt": "",
    "cli/main.cpp": '#include "reports/page.h"\n',
    "docs/ops.md": "",
    "framework/CMakeLists.txt": "",
    "framework/core/shape.cpp": '#include "framework/core/shape.h"\n',
    "framework/core/shape.h": "int rank();\n",
    "framework/ops/add.cpp": '#include "framework/ops/add.h"\n',
    "framework/ops/add.h": '#include "framework/core/shape.h"\nint add();\n',
    "framework/passes/fuse.cpp": '#include "framework/ops/add.h"\n',
    "reports/page.h": "int page();\n",
    "scripts/affected_tests": "",
    "tests/e2e/process.cpp": '#include "tests/e2e/process.h"\n',
    "tests/e2e/process.h": "",
    "tests/e2e/run_test.cpp": '#include "tests/e2e/process.h"\n',
    "tests/io/file_test.cpp": "",
    "tests/ops/add_test.cpp": '#include "tests/support/samples.h"\n',
    "tests/passes/fuse_test.cpp": '#include "tests/passes/graphs.h"\n',
    "tests/passes/graphs.h": '#include "tests/support/wave.h"\n',
    "tests/reference/program_test.cpp": '#include "tests/e2e/process.h"\n',
    "tests/support/samples.cpp": '#include "tests/support/wave.h"\n',
    "tests/support/samples.h": "",
    "tests/support/wave.h": "",
    **{f"tests/{folder}/CMakeLists.txt": "" for folder in ("e2e", "io", "ops", "passes", "reference", "support")},
}
FOLDERS = ["e2e", "io", "ops", "passes", "reference", "support"]


# Whoever runs this may sign commits, or have hooks.
ENVIRONMENT = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


class Affected(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in FILES.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")
        self.run_in("git", "init", "--quiet")
        self.commit()

    def run_in(self, *command):
        return subprocess.run(command, cwd=self.root, env=ENVIRONMENT, check=True, capture_output=True, text=True).stdout.split()

    def commit(self):
        self.run_in("git", "add", "--all")
        self.run_in("git", "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "--message", "state")

    def chosen(self, script, *changed):
        for name in changed:
            (self.root / name).write_text((self.root / name).read_text(encoding="utf-8") + "int more();\n", encoding="utf-8")
        try:
            return self.run_in(SCRIPTS / script, "HEAD")
        finally:
            self.run_in("git", "checkout", "--quiet", ".")

    def test_folders_whose_tests_run_a_part(self):
        self.assertEqual(self.chosen("affected_tests", "framework/passes/fuse.cpp"), ["passes"])
        self.assertEqual(self.chosen("affected_tests", "framework/ops/add.cpp"), ["io", "ops", "passes"])
        self.assertEqual(self.chosen("affected_tests", "docs/ops.md"), [])
        self.assertEqual(self.chosen("affected_tests", "tests/io/file_test.cpp"), ["io"])

    def test_folders_that_include_a_header_or_what_belongs_to_it(self):
        self.assertEqual(self.chosen("affected_tests", "tests/e2e/process.cpp"), ["e2e", "reference"])
        self.assertEqual(self.chosen("affected_tests", "tests/support/samples.h"), ["ops", "support"])
        self.assertEqual(self.chosen("affected_tests", "tests/support/wave.h"), ["ops", "passes", "support"])

    def test_all_folders(self):
        for name in ("CMakeLists.txt", "framework/CMakeLists.txt", "framework/core/shape.h", "scripts/affected_tests"):
            self.assertEqual(self.chosen("affected_tests", name), FOLDERS, name)

    def test_units_that_changed_or_include_what_did(self):
        self.assertEqual(self.chosen("affected_units", "framework/passes/fuse.cpp"), ["framework/passes/fuse.cpp"])
        self.assertEqual(self.chosen("affected_units", "framework/ops/add.h"), ["framework/ops/add.cpp", "framework/passes/fuse.cpp"])
        self.assertEqual(self.chosen("affected_units", "docs/ops.md"), [])

    def test_units_that_include_what_gives_less_at_any_depth(self):
        (self.root / "framework/core/shape.h").write_text("", encoding="utf-8")
        self.assertEqual(self.run_in(SCRIPTS / "affected_units", "HEAD"),
                         ["framework/core/shape.cpp", "framework/ops/add.cpp", "framework/passes/fuse.cpp"])
        self.assertEqual(self.run_in(SCRIPTS / "affected_units", "--direct", "HEAD"), ["framework/core/shape.cpp"])

    def test_all_units(self):
        units = sorted(name for name in FILES if name.endswith(".cpp"))
        self.assertEqual(self.chosen("affected_units", "CMakeLists.txt"), units)


if __name__ == "__main__":
    unittest.main()
