#!/usr/bin/env python3
"""Writes the tables of docs/evidence.md from the data in docs/evidence/, counting anew from the single runs.

    scripts/evidence/tables.py                 renews the tables between the markers of the page
    scripts/evidence/tables.py --check         fails if the page says something else than the data
    scripts/evidence/tables.py --pack FILE...  puts studies into docs/evidence/, without the machine's folder names

Shares no code with the program whose runs it counts: the bounds are computed here, and a summary in a data file that
says otherwise is an error.
"""

import gzip
import json
import math
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "evidence.md"
DATA = ROOT / "docs" / "evidence"
MARKED = re.compile(r"(<!-- (\w+): (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def read(name):
    return json.loads(gzip.decompress((DATA / name).read_bytes()))


def at_most(events, trials, probability):
    """P(X <= events), X binomial."""
    return sum(math.comb(trials, k) * probability**k * (1 - probability) ** (trials - k) for k in range(events + 1))


def upper_bound(events, trials):
    """One-sided 95 % bound on a rate [Clopper & Pearson 1934], by bisection."""
    if events == trials:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if at_most(events, trials, middle) > 0.05 else (low, middle)
    return (low + high) / 2


def agree(what, counted, said):
    if not math.isclose(counted, said, rel_tol=1e-6, abs_tol=1e-9):
        sys.exit(f"tables.py: {what}: counted {counted}, but the file says {said}")


def percent(value):
    return f"{100 * value:.{2 if value < 0.1 else 3}g} %"


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)] + [
        "| " + " | ".join(str(value) for value in row) + " |" for row in rows
    ]


def rows_of(study, metric):
    return [row for run in study["runs"] for row in run["rows"] if row["metric"] == metric]


def false_alarms(name):
    """Gates of a program against itself: how many were REGRESSED."""
    study = read(name)
    codes = [run["exit_code"] for run in study["runs"]]
    told = len(codes) - codes.count(3)
    alarms = codes.count(2)
    bound = upper_bound(alarms, told)
    summary = study["summary"]
    agree(f"{name}: alarms", alarms, summary["alarms"])
    agree(f"{name}: bound", bound, summary["upper_95"])
    undecided = [run["reason"] for run in study["runs"] if run["exit_code"] == 3]

    def said(verdict):
        return sum(reason.startswith(verdict) for reason in undecided)

    lines = table(
        ["what", "figure"],
        [
            ["gates", len(codes)],
            ["that could not tell (exit 3): CONTAMINATED, INVALID", f"{said('CONTAMINATED')}, {said('INVALID')}"],
            ["false alarms", f"{alarms} of {told}"],
            ["rate of false alarms, 95 % bound", percent(bound)],
            ["flagged by the first look alone", sum(run["flagged"] > 0 for run in study["runs"])],
        ]
        + (
            [
                [f"{summary['resampled']['resamples']:,} gates drawn again from the processes of these: rate, 95 % bound",
                 f"{percent(summary['resampled']['rate'])}, {percent(summary['resampled']['upper_95'])}"]
            ]
            if summary.get("resampled")
            else []
        ),
    )
    rows = []
    for cell in sorted({row["cell"] for row in rows_of(study, "time")}):
        own = [row for row in rows_of(study, "time") if row["cell"] == cell]
        effects = [effect for run in study["runs"] for effect in run["log_ratios"].get(cell, [])]
        detectable = [row["detectable"] for row in own if row["detectable"] is not None]
        rows.append(
            [
                f"`{cell}`",
                sum(row["verdict"] == "REGRESSED" for row in own),
                percent(statistics.median(detectable)),
                f"{100 * statistics.mean(effects):+.2f} %",
                percent(statistics.stdev(effects)),
            ]
        )
    return lines + [""] + table(["cell", "alarms", "detects (median)", "mean of ln(head/base)", "its scatter"], rows)


def power(name):
    """Gates with a change injected into one side: how many of the rows that claim to detect its size did."""
    study = read(name)
    injection = study["design"]["injection"]
    metric = "time" if "time" in injection else "instructions"
    size = injection[metric]
    rows, total = [], [0, 0, 0]
    for cell in sorted({row["cell"] for row in rows_of(study, metric) if row["arm"] in injection["arms"]}):
        own = [row for row in rows_of(study, metric) if row["cell"] == cell]
        claimed = [
            row
            for row in own
            if row["verdict"] not in ("INVALID", "CONTAMINATED")
            and (metric != "time" or (row["detectable"] is not None and row["detectable"] <= size))
        ]
        caught = sum(row["verdict"] == "REGRESSED" for row in claimed)
        rows.append([f"`{cell}`", len(own), len(claimed), caught])
        total = [a + b for a, b in zip(total, [len(own), len(claimed), caught])]
    said = study["summary"]["power"]
    agree(f"{name}: claimed", total[1], said["claimed"])
    agree(f"{name}: caught", total[2], said["caught"])
    lower = 1 - upper_bound(total[1] - total[2], total[1])
    rows.append(["all", *total])
    share = f"{total[2]} of {total[1]}: {percent(total[2] / total[1])}, at least {percent(lower)} (95 %)."
    return table(["cell", "gates", "claim to detect it", "REGRESSED"], rows) + ["", share]


def loaded(name):
    """Runs next to a busy process: how many cover the quiet speed-up, or are CONTAMINATED."""
    study = read(name)
    quiet = math.exp(statistics.mean(math.log(run["speedup"]) for run in study["quiet"]))
    runs = study["loaded"]
    covers = [run["low"] <= quiet <= run["high"] for run in runs]
    contaminated = [run["verdict"] == "CONTAMINATED" for run in runs]
    right = sum(a or b for a, b in zip(covers, contaminated))
    summary = study["summary"]
    agree(f"{name}: right", right, summary["right"])
    agree(f"{name}: quiet speed-up", quiet, summary["quiet_speedup"])
    return table(
        ["what", "figure"],
        [
            ["load: share of the time that another process computes", percent(study["design"]["duty"])],
            [f"quiet speed-up of `{study['design']['workload']}` (mean of {len(study['quiet'])} runs)", f"{quiet:.3f}"],
            ["runs beside the load", len(runs)],
            ["interval covers the quiet speed-up", sum(covers)],
            ["CONTAMINATED", sum(contaminated)],
            ["either: right", f"{right} of {len(runs)}"],
        ],
    )


def measuring(name):
    """Tests that measure, run many times next to a busy process (scripts/evidence/measuring_tests)."""
    study = read(name)
    rows = []
    for busy, tests in study.items():
        said = {what: [why for test in tests.values() for why in test.get(what, [])] for what in ("passed", "skipped", "failed")}
        untold = sum("can't tell" in why or "can't be told" in why for why in said["skipped"])
        runs = max(sum(len(whys) for whys in test.values()) for test in tests.values())
        rows.append([f"{busy} % of one CPU", runs, len(tests), len(said["passed"]), untold, len(said["skipped"]) - untold,
                     len(said["failed"])])
    return table(["beside a process that computes for", "runs", "tests", "passed", "skipped: could not tell",
                  "skipped: not installed here, or by night", "failed"], rows)


def split(name):
    """Splits of eager's time next to a busy process (scripts/evidence/split_of_eager): does the sum hold the rung?"""
    study = read(name)
    held = withheld = wrong = 0
    for run in study["runs"]:
        residual = run.get("residual_seconds") or {}
        holds = residual.get("low") is not None and residual["low"] <= 0 <= residual["high"]
        held += holds
        withheld += not holds and run["reason"] is not None
        wrong += not holds and run["reason"] is None
    agree(f"{name}: held", held, study["summary"]["held"])
    agree(f"{name}: withheld", withheld, study["summary"]["withheld"])
    return table(["what", "runs"], [
        ["the interval of the sum holds what replay saves", held],
        ["withheld, with the reason", withheld],
        ["neither", wrong],
        ["all", len(study["runs"])],
    ])


KINDS = {"false_alarms": false_alarms, "power": power, "loaded": loaded, "measuring": measuring, "split": split}


def render(match):
    kind, name = match.group(2), match.group(3)
    if kind not in KINDS:
        sys.exit(f"tables.py: {PAGE.name}: no table '{kind}'; there are {', '.join(KINDS)}")
    return match.group(1) + "\n" + "\n".join(KINDS[kind](name)) + "\n\n" + match.group(4)


def pack(path):
    study = json.loads(path.read_text())
    variables = study.get("environment", {}).get("process", {}).get("tuning_variables", {})
    for name in [name for name, value in variables.items() if "/" in str(value)]:
        del variables[name]
    text = json.dumps(study, separators=(",", ":")).encode()
    (DATA / (path.name + ".gz")).write_bytes(gzip.compress(text, mtime=0))


def main():
    if sys.argv[1:2] == ["--pack"]:
        DATA.mkdir(exist_ok=True)
        for name in sys.argv[2:]:
            pack(pathlib.Path(name))
        return
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    page = PAGE.read_text()
    current = MARKED.sub(render, page)
    if current == page:
        return
    if sys.argv[1:]:
        sys.exit("docs/evidence.md says something else than docs/evidence/: renew it with scripts/evidence/tables.py")
    PAGE.write_text(current)


if __name__ == "__main__":
    main()
