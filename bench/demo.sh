#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Rondo in one command: installs what is missing, builds, measures all-reduce on 4 ranks, and trains
# a character model on this machine's licence texts with 1, 2 and 4 ranks.
#   bash bench/demo.sh [STEPS]     training steps a run (default 60)
# Prints how long each step took. Exits with 2, after one line, if something is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
steps=${1:-60}
bin=build/release/bin
needed_mb=300  # of objects, libraries and programs

refuse() {
  echo "demo.sh: $*" >&2
  exit 2
}
free_mb() { df -Pm "$1" | awk 'NR == 2 {print $4}'; }
check_space() {
  local folder
  for folder in . "${TMPDIR:-/tmp}"; do
    [ "$(free_mb "$folder")" -ge "$1" ] ||
      refuse "$(free_mb "$folder") MB are free in $(realpath "$folder"), and $1 MB are needed:" \
        "free some space and run this again"
  done
}

step=0 times=
begin() {
  step=$((step + 1)) title=$1 began=$SECONDS
  echo "== $step/4 $1: $2"
}
finish() {
  local took=$((SECONDS - began))
  times+="${times:+, }$title $took s"
  printf -- '-- %s took %d s\n\n' "$title" "$took"
}

[[ $steps =~ ^[1-9][0-9]*$ ]] || refuse "STEPS is a whole number from 1, not '$steps'"
check_space "$needed_mb"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
trap 'echo; echo "demo.sh: interrupted" >&2; exit 130' INT

begin packages "installs what a build needs, where it is missing"
.ci/install.sh
finish

begin compiling "Rondo and the trainer, in build/release"
compiler=${CXX:-c++}
command -v "${compiler%% *}" >/dev/null ||
  refuse "there is no C++ compiler '$compiler': install g++, or let CXX name one that is there"
cmake --preset release >"$logs/cmake" 2>&1 || {
  grep -A 3 'CMake Error' "$logs/cmake" >&2 || tail -n 5 "$logs/cmake" >&2
  refuse "CMake cannot configure the build: mend what it says above and run this again"
}
cmake --build --preset release --target rondo train_text || {
  check_space 20
  echo "demo.sh: the build failed; its output above says why" >&2
  exit 1
}
finish

begin measuring "all-reduce, 4 ranks as processes"
"$bin/rondo" bench all_reduce --ranks 4 -b 4 -e 16M -f 8 -n 20 --no-progress
finish

begin training "a character model on 1, 2 and 4 ranks"
for ranks in 1 2 4; do
  echo "-- on $ranks rank(s)"
  "$bin/rondo" run -n "$ranks" --no-prefix -- "$bin/train_text" --steps "$steps" |
    tee "$logs/$ranks"
done
echo "-- last line of every run (the losses agree: one global batch, cut into shards)"
for ranks in 1 2 4; do
  printf '%s rank(s): %s\n' "$ranks" "$(tail -n 1 "$logs/$ranks")"
done
finish

cat <<END
== done in $SECONDS s: $times
What to try next:
  $bin/rondo bench all_gather --ranks 2           another collective (--help lists them)
  $bin/rondo explain all_reduce 1M --ranks 4      which algorithm runs, and why
  $bin/rondo doctor                               what slows Rondo down on this machine
  README.md, "What to do with what you have"      your own program, and PyTorch
END
