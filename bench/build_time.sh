#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a preset from scratch and prints where the time went: CPU and wall time of the whole build,
# then the 20 objects with the maximum CPU time.
#   bash bench/build_time.sh [PRESET]             default: release
#   bash bench/build_time.sh [PRESET] --headers   also the 20 most expensive headers. Compiles once
#                                                 more, by clang++ -O0 -ftime-trace
# Builds all targets in build/build_time/PRESET, which it recreates, without ccache. The machine
# should be idle. CMAKE_BUILD_PARALLEL_LEVEL limits the number of concurrent compilers.
set -euo pipefail

# Compilers run through `build_time.sh --note COMMAND...`, which adds a line "CPU-seconds object" to
# the file $RONDO_BUILD_TIMES.
if [ "${1:-}" = --note ]; then
  shift
  object=
  for ((i = 1; i < $#; ++i)); do
    [ "${!i}" != -o ] || object=${*:i+1:1}
  done
  TIMEFORMAT='%U %S'
  status=0
  { taken=$({ time "$@" >&3 2>&4; } 2>&1); } 3>&1 4>&2 || status=$?
  read -r user system <<<"$taken"
  echo "$user $system $object" >>"$RONDO_BUILD_TIMES"
  exit "$status"
fi

cd "$(dirname "$0")/.."
refuse() {
  echo "build_time.sh: $*" >&2
  exit 2
}
preset=release headers=
for word in "$@"; do
  case $word in
    --headers) headers=yes ;;
    -*) refuse "there is no option $word: bash bench/build_time.sh [PRESET] [--headers]" ;;
    *) preset=$word ;;
  esac
done
for program in cmake ninja python3; do
  command -v "$program" >/dev/null || refuse "$program is missing: run .ci/install.sh --tests"
done
presets=$(cmake --list-presets=build | sed -n 's/^ *"\(.*\)".*/\1/p')
grep -qx -- "$preset" <<<"$presets" ||
  refuse "there is no preset $preset; there are: $(tr '\n' ' ' <<<"$presets")"
clang=$(command -v clang++ clang++-14 | head -n 1) || true
[ -z "$headers" ] || [ -n "$clang" ] || refuse "--headers needs clang++: run .ci/install.sh --tests"

build=build/build_time/$preset
rm -rf "$build"
mkdir -p "$build"
export RONDO_BUILD_TIMES=$PWD/$build/cpu_times CCACHE_DISABLE=1
: >"$RONDO_BUILD_TIMES"
note="bash;$PWD/bench/build_time.sh;--note"
TIMEFORMAT='%R %U %S'

# timed NAME COMMAND...: runs it; writes "NAME wall user system" to $build/totals.
timed() {
  local name=$1 log=$build/$1.log
  shift
  { time "$@" >"$log" 2>&1; } 2>"$build/time" || {
    tail -n 20 "$log" >&2
    echo "build_time.sh: $name failed; $log holds all of it" >&2
    exit 1
  }
  echo "$name $(cat "$build/time")" >>"$build/totals"
}

echo "$preset: a cold build without ccache on $(nproc) cores, in $build"
timed configure cmake --preset "$preset" -B "$build" -DCMAKE_C_COMPILER_LAUNCHER="$note" \
  -DCMAKE_CXX_COMPILER_LAUNCHER="$note" -DCMAKE_CUDA_COMPILER_LAUNCHER="$note"
timed build cmake --build "$build"
python3 bench/build_time.py objects "$build"

[ -n "$headers" ] || exit 0
traced=$build.headers
echo
echo "headers: compiling again by $clang -O0 -ftime-trace, in $traced"
rm -rf "$traced"
mkdir -p "$traced"
# Skips targets that only GCC compiles.
cmake --preset "$preset" -B "$traced" -DCMAKE_CXX_COMPILER="$clang" -DCMAKE_BUILD_TYPE=Traced \
  -DCMAKE_CXX_FLAGS_TRACED='-O0 -w -ftime-trace' -DCMAKE_CXX_COMPILER_LAUNCHER=env \
  >"$traced/log" 2>&1 || {
  tail -n 20 "$traced/log" >&2
  exit 1
}
cmake --build "$traced" -- -k 0 >>"$traced/log" 2>&1 ||
  echo "not all of it compiles by $clang: $(grep -c '^FAILED' "$traced/log") steps are left out"
python3 bench/build_time.py headers "$traced"
