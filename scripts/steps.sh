# Sourced by the other scripts. Runs named steps from the project's folder, and reports which one failed and what to do.
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

# Where ccache is installed it keeps what was compiled, for every folder that has the same sources: names relative to the folder,
# headers that are compiled ahead, the compiler told by its bytes. CCACHE_DISABLE=1 compiles everything, as figures of build time need.
compiler_launcher() {
  ! command -v ccache >/dev/null || printf 'env;CCACHE_BASEDIR=%s;CCACHE_SLOPPINESS=pch_defines,time_macros;CCACHE_COMPILERCHECK=content;CCACHE_MAXSIZE=%s;ccache' \
    "$PWD" "${CCACHE_MAXSIZE:-10G}"
}
# What a build, whose log this is, found in the cache.
said_by_ccache() {  # said_by_ccache LOG
  local hits misses
  [ -s "$1" ] || return 0
  hits=$(grep -cE '^(direct|preprocessed)_cache_hit$' "$1")
  misses=$(grep -c '^cache_miss$' "$1")
  printf 'ccache: %d of %d compilations are from the cache; it holds %s\n' "$hits" $((hits + misses)) \
    "$(CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-10G} ccache -s | sed -n 's/^ *Cache size (GB): *\([0-9.]*\) *\/ *\([0-9.]*\).*/\1 of \2 GB/p')"
}

# Progress goes to standard error, because standard output belongs to the program that is run in the end.
configure() { cmake --preset "$1" -Wno-dev --log-level=WARNING -DCMAKE_CXX_COMPILER_LAUNCHER="$(compiler_launcher)" | grep -v -e '^Preset' -e '^  CMAKE' -e '^  DIPTYCH' -e '^$' >&2 || return "${PIPESTATUS[0]}"; }

# Condenses ninja's lines for its steps into one that shows the progress of the build; compiler messages pass unchanged.
progress() {
  local line began=$SECONDS shown=-10 now text newline=""
  while IFS= read -r line; do
    if [[ ! $line =~ ^\[([0-9]+)/([0-9]+)\]\  ]]; then
      [ "$line" = "ninja: no work to do." ] || printf '%s%s\n' "$newline" "$line" && newline=""
      continue
    fi
    [[ $line != *"Re-checking globbed directories"* ]] || continue
    local done=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]} left=""
    now=$((SECONDS - began))
    # The first steps aren't representative of the rest.
    if ((now >= 10 && done > 0)); then
      local seconds=$((now * (all - done) / done))
      left=$([ $seconds -ge 90 ] && echo ", about $(((seconds + 30) / 60)) min left" || echo ", about $seconds s left")
    fi
    text="building: step $done of $all$left"
    if [ -t 1 ]; then
      printf '\r\033[K%s' "$text" && newline=$'\n'
    elif ((now - shown >= 10 || done == all)); then
      printf '%s\n' "$text" && shown=$now
    fi
  done
  printf '%s' "$newline"
}
compile() {  # compile PRESET [TARGET...]
  local log code=0
  log=$(mktemp)
  CCACHE_STATSLOG=$log NINJA_STATUS="[%f/%t] " cmake --build --preset "$1" ${2:+--target} "${@:2}" 2>&1 | progress >&2 || code=$?
  said_by_ccache "$log" >&2
  rm -f "$log"
  return $code
}

build() {  # build PRESET [TARGET...]
  step configure "If a package was not found, look at scripts/setup; a stale folder is cured by: rm -rf build/$1" \
    configure "$1"
  step build "The first error above is the one to mend." compile "$@"
}

# Sets `targets` to what builds the tests of PRESET that a change since REVISION touches, and `chosen` to what ctest calls them:
# all of them without a revision, where neither is set to anything, and fails if there are none.
touched_tests() {  # touched_tests PRESET [REVISION]
  local kind folders names
  targets=() chosen=()
  [ -n "${2:-}" ] || return 0
  kind=$([ "$1" = tsan ] && echo thread || echo unit)
  names=$(step affected "Is $2 a revision?" scripts/affected_tests "$2") || exit
  mapfile -t folders <<<"$names"
  [ -n "$names" ] || return 1
  targets=("${folders[@]/#/${kind}_tests_of_}")
  chosen=(-L "^tests/($(IFS='|' && echo "${folders[*]}"))\$" --no-tests=ignore)
}

install_packages() {  # install_packages [--lint ...]
  step setup "Run the line above as root, or see scripts/setup." scripts/setup "$@"
}
