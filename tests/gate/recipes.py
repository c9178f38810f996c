#!/usr/bin/env python3
"""The CI recipes parse, and what they run exists: files of the project, presets, and options of the gate.

recipes.py PROJECT DIPTYCH. Exit code 77: skipped, there is no PyYAML."""
import json
import pathlib
import re
import shlex
import subprocess
import sys

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(77)

project, program = pathlib.Path(sys.argv[1]), sys.argv[2]
KNOWN_TOOLS = {"apt-get", "git", "cmake", "cat"}
problems = []
presets = {preset["name"] for preset in json.loads((project / "CMakePresets.json").read_text())["configurePresets"]}
help_text = subprocess.run([program, "gate", "--help"], check=True, capture_output=True, text=True).stdout
options = set(re.findall(r"--[a-z-]+", help_text))


def commands(name):
    recipe = yaml.safe_load((project / "scripts/ci" / name).read_text())
    for job in (recipe["jobs"] if "jobs" in recipe else recipe).values():
        for step in job.get("steps", []):
            if "run" in step:
                yield from step["run"].splitlines()
        yield from job.get("before_script", [])
        yield from job.get("script", [])


gates = 0
for name in ("github-actions.yml", "gitlab-ci.yml"):
    found = [part.strip() for line in commands(name) for part in line.split("&&") if part.strip()]
    if not found:
        problems.append(f"{name}: runs nothing")
    for command in found:
        words = shlex.split(command)
        if words[0].startswith("scripts/"):
            if not (project / words[0]).exists():
                problems.append(f"{name}: {words[0]} does not exist")
        elif words[0] == "build/release/diptych":
            gates += words[1] == "gate"
            for option in (word for word in words if word.startswith("--")):
                if option not in options:
                    problems.append(f"{name}: gate has no option {option}")
        elif words[0] not in KNOWN_TOOLS:
            problems.append(f"{name}: unknown tool {words[0]}")
        for before, word in zip(words, words[1:]):
            if before == "--preset" and word not in presets:
                problems.append(f"{name}: no preset {word}")
if gates != 4:
    problems.append(f"expected a self-test and a gate in each recipe, found {gates} in all")
print("\n".join(problems) or "ok")
sys.exit(1 if problems else 0)
