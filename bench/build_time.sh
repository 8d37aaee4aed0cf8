#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a preset from scratch and prints where the time went: CPU and wall time of the whole build,
# then the 20 steps that took longest (wall time, beside others).
#   bash bench/build_time.sh [PRESET]    default: release
# Builds all targets in build/build_time/PRESET, which it recreates, without ccache. The machine
# should be idle. CMAKE_BUILD_PARALLEL_LEVEL limits the number of concurrent compilers.
set -euo pipefail
cd "$(dirname "$0")/.."
refuse() {
  echo "build_time.sh: $*" >&2
  exit 2
}
preset=${1:-release}
case $# in
  0 | 1) ;;
  *) refuse "'$2' is one word too many: bash bench/build_time.sh [PRESET]" ;;
esac
for program in cmake ninja; do
  command -v "$program" >/dev/null || refuse "$program is missing: run .ci/install.sh --tests"
done
presets=$(cmake --list-presets=build | sed -n 's/^ *"\(.*\)".*/\1/p')
grep -qx -- "$preset" <<<"$presets" ||
  refuse "there is no preset $preset; there are: $(tr '\n' ' ' <<<"$presets")"

build=build/build_time/$preset
rm -rf "$build"
mkdir -p "$build"
export CCACHE_DISABLE=1
TIMEFORMAT='%1R s wall, %1U s user, %1S s system'

# timed NAME COMMAND...
timed() {
  local name=$1 log=$build/$1.log
  shift
  { time "$@" >"$log" 2>&1; } 2>"$build/time" || {
    tail -n 20 "$log" >&2
    echo "build_time.sh: $name failed; $log holds all of it" >&2
    exit 1
  }
  echo "$name: $(cat "$build/time")"
}

echo "$preset: a cold build without ccache on $(nproc) cores, in $build"
timed configure cmake --preset "$preset" -B "$build"
timed build cmake --build "$build"
echo "wall s  step"
# Columns of ninja's log: begin and end in ms, time stamp, output, hash.
awk -F '\t' 'NF == 5 { printf "%6.1f  %s\n", ($2 - $1) / 1000, $4 }' "$build/.ninja_log" |
  sort -rn | sed -n 1,20p
