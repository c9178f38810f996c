#!/usr/bin/env python3
"""How far a loaded core moves what `diptych run` says: docs/evidence.md has the results.

    scripts/evidence/loaded_core.py build/release/diptych --runs 100 --out docs/evidence/loaded-core.json

Measures the speed-up of graph over eager on the quiet machine (the mean of --quiet runs, on the log scale), then --runs
times while another process computes for --duty of the time. A run is right when its 95 % interval covers the quiet
speed-up, or when it says CONTAMINATED. Needs a machine that is otherwise idle. An --out that is there is continued.
"""

import argparse
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from neighbour import Neighbour


def measure(program, workload, size, seed):
    """One run: the speed-up of graph, its interval and its verdict."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "run", workload, "--arms", "eager,graph", f"--{size}", "--seed", str(seed), "--out", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        files = list(pathlib.Path(folder).glob("*/run.json"))
        if not files:
            sys.exit(f"loaded_core: {' '.join(command)} left no run (exit {done.returncode}): {done.stderr.strip()}")
        run = json.loads(files[0].read_text())
    comparison = run["cells"][0]["comparisons"][0]
    speedup = comparison["speedup"]
    return {
        "seed": seed,
        "speedup": speedup["estimate"],
        "low": speedup["low"],
        "high": speedup["high"],
        "verdict": comparison["verdict"]["verdict"],
        "reason": comparison["verdict"]["reason"],
    }, run["environment"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--workload", default="micro/dispatch")
    parser.add_argument("--size", default="gate", choices=["standard", "gate", "certify"])
    parser.add_argument("--quiet", type=int, default=10, help="runs on the quiet machine")
    parser.add_argument("--runs", type=int, default=100, help="runs beside the load")
    parser.add_argument("--duty", type=float, default=1.0, help="share of the time that the load computes")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    if not 0 < options.duty <= 1:
        parser.error("--duty: a share above 0, up to 1")

    out = pathlib.Path(options.out)
    design = {"workload": options.workload, "size": options.size, "duty": options.duty}
    study = {"schema": "diptych.loaded-core/1", "command": "", "design": design, "quiet": [], "loaded": []}
    if out.exists():
        study = json.loads(out.read_text())
        if study["design"] != design:
            sys.exit(f"loaded_core: {out} was taken with {study['design']}; name another file")
    study["command"] = " ".join(["scripts/evidence/loaded_core.py", *sys.argv[1:]])

    def add(kind, count):
        while len(study[kind]) < count:
            seed = len(study[kind]) + (1 if kind == "quiet" else 1001)
            result, study["environment"] = measure(options.program, options.workload, options.size, seed)
            study[kind].append(result)
            summarise(study)
            part = out.with_suffix(".part")
            part.write_text(json.dumps(study, indent=1) + "\n")
            os.replace(part, out)
            print(f"\r{kind} {len(study[kind])}/{count}", end="", file=sys.stderr, flush=True)

    add("quiet", options.quiet)
    with Neighbour(100 * options.duty):
        add("loaded", options.runs)
    print(file=sys.stderr)
    print(json.dumps(study["summary"], indent=1))


def summarise(study):
    quiet = math.exp(sum(math.log(run["speedup"]) for run in study["quiet"]) / len(study["quiet"]))
    covers = [run["low"] <= quiet <= run["high"] for run in study["loaded"]]
    contaminated = [run["verdict"] == "CONTAMINATED" for run in study["loaded"]]
    study["summary"] = {
        "quiet_speedup": quiet,
        "runs": len(covers),
        "covers": sum(covers),
        "contaminated": sum(contaminated),
        "right": sum(a or b for a, b in zip(covers, contaminated)),
    }


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the neighbour too
    main()
