"""Notes the result of one step of scripts/nightly in the table of docs/nightly.md: nightly_page.py STEP RESULT MINUTES"""
import datetime
import pathlib
import platform
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/nightly.md"


def main():
    name, result, minutes = sys.argv[1:]
    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=PAGE.parents[1], check=True, capture_output=True,
                              text=True).stdout.strip()

    revision = git("describe", "--always", "--abbrev=10")
    # The steps before have changed the page itself.
    revision += "-dirty" if git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/nightly.md") else ""
    model = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    row = f"| {name} | {result} | {minutes} | {date} | {revision} | {model} |"
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    places = [i for i, line in enumerate(lines) if line.startswith(f"| {name} |") and line.count("|") == row.count("|")]
    if len(places) != 1:
        sys.exit(f"{PAGE}: no row for the step {name}")
    lines[places[0]] = row
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


main()
