#!/usr/bin/env bash
# Installs, builds and runs all tests. Sanitizers and fuzzers are stages of their own.
#   bash tests/run.sh                      all tests (stages dev, simt and torch)
#   bash tests/run.sh dev asan tsan fuzz   the stages that are named
#   bash tests/run.sh torch_all            also the slow tests of PyTorch programs
set -euo pipefail
cd "$(dirname "$0")/.."
.ci/install.sh --tests
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

build() {
  cmake --preset "$1" >"build-$1.log" 2>&1 || { cat "build-$1.log"; exit 1; }
  rm -f "build-$1.log"
  cmake --build --preset "$1" ${2:+--target $2} | tail -n 3
}

# Tests that share the machine badly run alone; nothing asserts on a time.
run_ctest() {
  ctest --test-dir "build/$1" --output-on-failure --no-tests=error -j "${RONDO_TEST_JOBS:-2}" \
    "${@:2}"
}

stage_dev() { build dev && run_ctest dev; }
# The GPU path on an emulated GPU.
stage_simt() { build simt simt && run_ctest simt -R '^Simt'; }
# Sanitizers run what has threads, pointers and processes; the widest sweeps stay with dev.
stage_asan() {
  build asan "unit_tests engine_tests"
  run_ctest asan -R 'Bootstrap|Socket|Staged|Fiber|Stream|Fault|Topology|CollectivesTest.*/[0-3]|Tcp' \
    -E 'Exhaustive|Checker'
}
stage_tsan() {
  build tsan "unit_tests engine_tests"
  run_ctest tsan -R 'Bootstrap|Stream|CollectivesTest.*(Type|Along).*/[1-3]|Tcp' -E 'Process|Exhaustive'
}
stage_fuzz() {
  build fuzz fuzzers
  for target in build/fuzz/bin/fuzz_*; do
    echo "fuzzing $(basename "$target")"
    "$target" -max_total_time="${RONDO_FUZZ_SECONDS:-15}" -timeout=5 -rss_limit_mb=2048 \
      -verbosity=0 -print_final_stats=0
  done
}

# PyTorch programs on the installed wheel; any CPU build of torch from 2.12 on.
stage_torch() {
  .ci/install.sh --torch
  local venv=build/torch-venv
  [ -x $venv/bin/pip ] || python3 -m venv $venv
  $venv/bin/pip install -q "torch==${RONDO_TORCH:-2.13.0}" numpy pytest
  CMAKE_BUILD_PARALLEL_LEVEL=2 $venv/bin/pip install -q --force-reinstall --no-deps ./api/torch
  $venv/bin/python -m pytest -q -p no:cacheprovider --durations=5 tests/torch "$@"
}
stage_torch_all() { stage_torch --slow; }

[ $# -gt 0 ] || set -- dev simt torch
for stage in "$@"; do
  echo "== $stage"
  "stage_$stage"
done
echo "all stages passed: $*"
