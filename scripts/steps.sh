# Sourced by the other scripts: runs named steps from the project's folder, and says which one failed and what to do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step() {  # step NAME ADVICE COMMAND...
  local name=$1 advice=$2
  shift 2
  "$@" || {
    local code=$?
    printf '\n%s: the step "%s" failed (exit code %d). %s\n' "${0##*/}" "$name" "$code" "$advice" >&2
    exit "$code"
  }
}

# Progress goes to standard error: standard output belongs to the program that is run in the end.
configure() { cmake --preset "$1" -Wno-dev --log-level=WARNING | grep -v -e '^Preset' -e '^  CMAKE' -e '^  DIPTYCH' -e '^$' >&2 || return "${PIPESTATUS[0]}"; }
compile() { NINJA_STATUS="[%f/%t] " cmake --build --preset "$1" >&2; }

build() {  # build PRESET
  step configure "If a package was not found, look at scripts/setup; a stale folder is cured by: rm -rf build/$1" \
    configure "$1"
  step build "The first error above is the one to mend." compile "$1"
}

install_packages() {  # install_packages [--lint ...]
  step setup "Run the line above as root, or see scripts/setup." scripts/setup "$@"
}
