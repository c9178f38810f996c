"""The stages of a CI run: what each took, its share, and whether it has grown against the recorded run.

    stages.py TIMES [--record REVISION [--browsed REVISION]]
        TIMES: a line a stage, "seconds<TAB>name", and "<TAB>part" if it had only a part to do
        --browsed: at which a browser saw all pages, where it isn't this one

Machines differ in speed by 2x. So a stage is held against the others: the median of what they take here by what is
recorded is this machine's speed, and a stage has grown if it takes a fifth more than that, and 20 s at least. Parts, which are
what a change touches, are neither held against others nor taken for the machine's speed."""
import argparse
import pathlib
import statistics

RECORD = pathlib.Path(__file__).with_name("stages.tsv")
GROWN = 1.2
LEAST_SECONDS = 20


def read(path):
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()
            if line and not line.startswith("#")]
    return {row[1]: float(row[0]) for row in rows}, {row[1] for row in rows if row[2:] == ["part"]}


def table(now, parts, recorded):
    ratios = [seconds / recorded[name] for name, seconds in now.items()
              if name not in parts and recorded.get(name, 0) >= LEAST_SECONDS]
    speed = statistics.median(ratios) if ratios else 1.0
    total = sum(now.values())
    lines = [f"{'stage':<58}{'seconds':>9}{'share':>8}{'recorded':>10}"]
    for name, seconds in now.items():
        before = recorded.get(name)
        expected = before * speed if before is not None and name not in parts else None
        grown = expected is not None and seconds > GROWN * expected and seconds - expected >= LEAST_SECONDS
        note = f"  grown: {seconds / expected:.2f} of what the other stages let expect" if grown else ""
        note = "  what the change touches" if name in parts else note
        new = "-" if before is None else f"{before:.0f}"
        lines.append(f"{name:<58}{seconds:>9.0f}{seconds / total:>8.0%}{new:>10}{note}")
    if speed > GROWN:
        lines.append(f"half of the whole stages take {speed:.2f} and more of what was recorded: a slower machine, or they have all grown")
    lines.append(f"{'all':<58}{total:>9.0f}{'':>8}{sum(recorded.values()):>10.0f}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", type=pathlib.Path)
    parser.add_argument("--record", metavar="REVISION")
    parser.add_argument("--browsed", metavar="REVISION")
    options = parser.parse_args()
    now, parts = read(options.times)
    recorded = read(RECORD)[0] if RECORD.exists() else {}
    print("\n".join(table(now, parts, recorded)))
    if options.record:
        revision = options.record
        head = ("# What .ci/run took when it was last recorded (CI_RECORD=1 .ci/run): seconds, stage. See .ci/stages.py.\n"
                f"# revision {revision}\n# linted {revision}\n# sanitized {revision}\n# browsed {options.browsed or revision}\n")
        RECORD.write_text(head + "".join(f"{seconds:.0f}\t{name}\n" for name, seconds in now.items()), encoding="utf-8")


if __name__ == "__main__":
    main()
