#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs, builds and runs tests. Ends with how many passed, failed and were skipped, and the time.
#   bash tests/run.sh                      stages dev and simt: proves a build
#   bash tests/run.sh all                  every stage that CI knows
#   bash tests/run.sh in_turn              one of the long stages, by the number of commits
#   bash tests/run.sh dev asan             the stages that are named (docs/internals/testing.md)
#   bash tests/run.sh --for PATH...        the stages that a change of these paths asks for
#   bash tests/run.sh --for-change BASE    and of what differs from the commit BASE; then the tests
#                                          of dev that changed, three times, starved at random
#   bash tests/run.sh repeat NAME N        the tests of dev that match, N times, starved at random
#   RONDO_TORCH=2.15.0 bash tests/run.sh torch_all    on another release of PyTorch
set -euo pipefail
cd "$(dirname "$0")/.."
.ci/install.sh --tests
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# build PRESET [TARGETS]
build() {
  local log=build/$1.log progress=cat
  mkdir -p build
  [ -t 1 ] || progress="tail -n 1"  # a terminal shows ninja's own progress
  cmake --preset "$1" >"$log" 2>&1 || { cat "$log"; exit 1; }
  cmake --build --preset "$1" ${2:+--target $2} 2>&1 | tee "$log" | $progress || {
    grep -E 'error|FAILED' "$log" || tail -n 40 "$log"
    exit 1
  }
  rm -f "$log"
}

# Tests mostly wait, so two cores run three at once. Tests that share the machine badly run alone;
# no test asserts a time. A failed test runs again, except where failures by chance are looked for.
flaky="--flaky build/flaky.txt"
run_tests() {  # BUILD [options of tests/run_tests.py]
  python3 tests/run_tests.py "build/$1" -j "${RONDO_TEST_JOBS:-3}" --slowest 5 $flaky "${@:2}"
}

stage_dev() {
  build dev
  if [ -n "${CI:-}" ] && grep -q 'RONDO_UCX_HEADERS.*NOTFOUND' build/dev/CMakeCache.txt; then
    echo "built without ucp/api/ucp.h (libucx-dev)"
    exit 1
  fi
  if [ -n "${ahead:-}" ]; then  # tests mostly wait: meanwhile the next stage's programs compile
    build_simt >/dev/null 2>&1 &
  fi
  run_tests dev -E "$long_in_dev"
  wait
}
# What dev leaves out: the same tests on more networks and with large pages, every Nth system call
# that fails, 16 ranks, more than 4 GiB, whole self-tests.
stage_dev_more() { build dev && run_tests dev -R "$long_in_dev"; }
long_in_dev='^(engine\.(plugin|ucx|loop|pages_64k)|faults\.some|abi\.ucx|net\.self_test|Large\..*'
long_in_dev+='|.*Collectives(Test)?\..*/n?16|.*/OrderedReductions\..*/n16.*'
long_in_dev+='|PluginFailures\..*|SelfTestProgram\.Names.*)$'
build_simt() { build simt "simt gpu_tests"; }
# Kernels on an emulated GPU, and communicators of one process: most planted bugs are found here.
stage_simt() {
  . tests/simt/rounds.sh
  build_simt
  run_tests simt -R '^(Simt|Gpu)\.'
  in_weak_memory Meet
  many_seeds
}
# What simt leaves out: several processes and hosts, other settings, golden texts, clients.
stage_simt_more() {
  local apart_in_weak='Internode\.TakesRings|Spread\.Equals.*three_|DevicePuts|DeviceApi\.Sums'
  build simt "simt gpu_tests gpu_process_tests gpu_api_tests gpu_golden_tests gpu_direct_tests
    bench_tests nccl_shared micro_device nccl_contestant"
  run_tests simt -R '^Gpu' -E '^Gpu\.'
  RONDO_SIMT=mode=weak run_tests simt --batch 4 -R "^GpuProcess\..*($apart_in_weak)"
}

# The sweeps of one process in weak memory, and everything once on OS threads.
stage_simt_weak() {
  . tests/simt/rounds.sh
  build simt gpu_tests
  in_weak_memory 'EqualTheReference|GoRound|AreReplayed'
  on_threads
}

# The checks for a GPU, on an emulated one.
stage_gpu_check() {
  build simt "simt gpu_tests gpu_process_tests micro_device rondo_watch"
  python3 tests/gpu/emulated/check_all.py build/simt build/gpu-check
}

# The library for real GPUs, for one architecture, with everything that runs on one: it compiles and
# links, goes into a bundle that needs only glibc, and behaves well without a driver.
stage_cuda() {
  if ! command -v nvcc >/dev/null; then
    echo "not run: there is no nvcc on this machine"
    return
  fi
  build cuda-90 "rondo_shared nccl_shared rondo_audit rondo hello_allreduce gpu_tests
    gpu_process_tests gpu_probe micro_device nccl_contestant device_api_check moe_check abi_tests
    device_api_check_theirs client_rondo client_nccl nvtx_tool"
  python3 .ci/kernels.py --of build/cuda-90
  bash tests/gpu/pack.sh
  bash tests/gpu/check_driverless.sh build/cuda-90
  run_tests cuda-90 -R '^abi\.'
  build/cuda-90/bin/abi_tests --gtest_brief=1
}

# The library for every architecture, stripped, must have at most 10 MB.
stage_cuda_size() {
  local most=10000000 build=build/cuda-size size code
  cmake --preset cuda -B $build -DRONDO_GPU=cuda -DRONDO_WERROR=ON >/dev/null
  cmake --build $build --target nccl_shared | tail -n 1
  strip -o $build/libnccl.stripped $build/lib/libnccl.so.2
  size=$(stat -c %s $build/libnccl.stripped)
  code=$(grep -ohP 'code=\[\K[^]]+' $build/build.ninja | sort -u | paste -sd ' ')
  echo "libnccl.so.2 with code for $code: $size bytes stripped, at most $most"
  [ "$size" -le $most ]
}

# Code with threads, pointers, processes or input from outside. The widest sweeps, and proofs of
# algorithms on expressions instead of data, run in dev only; so do programs without sanitizers.
not_sanitized='Checker|Explorer|Ranks/CollectivesTest.*/([58]|16)$|/n(8|16)$|AtAnyMoment|Large'
not_sanitized+='|Exhaustive|/n[5-8]of|ReproducibleHosts|EveryValueOfANarrowType'
not_sanitized+='|Mutant\.|^Models/|_NOT_BUILT|^abi\.|^launch\.|^net\.|^trust\.|^Simt|^Gpu'
not_sanitized+='|^engine\.plugin|^SelfTestProgram'  # as engine.loop; dozens of jobs each
# UCX is a third-party library with its own thread, and is not built for sanitizers. Code that runs
# over it has not been tried under them.
not_sanitized+='|/Ucx|^Ucx|^engine\.ucx|^abi\.ucx|NoWayBetweenTwoRanks'

# The child of such a fork can find ASan's allocator locked by a thread that it does not have.
forks_beside_threads='BootstrapChildren.*Process|BootstrapFaults.AProcess|SessionOfProcesses'
forks_beside_threads+='|AForkedProcessMeetsAnew|StandingStill.*OtherNamespace'

# UBSan uses a pipe to check if memory is readable: without descriptors it reports false errors.
without_descriptors='OutOfDescriptors|WithoutDescriptors|WaitsForDescriptors|OfDescriptors'

stage_asan() {
  build asan "unit_tests engine_tests abi_tests bench_tests"
  UBSAN_OPTIONS=print_stacktrace=1 \
  ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1 \
    run_tests asan -E "$not_sanitized|$forks_beside_threads|$without_descriptors"
}

# TSan sees the threads of one process, so the stage tsan skips ranks as processes, many threads (8
# and 16 ranks under a sanitizer take minutes on two cores), and code without threads. tsan_all
# skips only what TSan itself cannot run: processes that a program with threads forks and that start
# threads themselves.
# TSan maps memory, which a test that counts mappings would see; a bit that a test flips is a race.
# Ranks that are processes and exit by _exit join no thread: that is no thread leak. TSan cannot
# fork a rank from a program after an earlier test's threads, so each test has its own program. A
# test of one thread that holds the locks of two ranks, in either order, looks like a deadlock.
not_for_tsan='AreLaunchedByOneOfTheirRanksAmongProcesses|AProcessKilledWhileJoining'
not_for_tsan+='|AForkedProcessMeets|JobSecret|^Launch\.|^Secrets\.|RefusedCalls|Clones'
not_for_tsan+='|FlippedBits|ForkAfterInit|StandingStill|AddressSpace|OtherUsers|CostNoDescriptors'
not_for_tsan+='|WhatComesAfterACancel'
slow_for_tsan='^engine\.|/(8|16)$|Process|Reduce|Killed|SignalStorm|HostFault|WarmPath'
slow_for_tsan+='|MismatchedCalls.*0000$'

run_tsan() {
  build tsan "unit_tests engine_tests abi_tests"
  TSAN_OPTIONS=report_thread_leaks=0:second_deadlock_stack=1 \
    run_tests tsan --batch 1 -E "$not_sanitized|$not_for_tsan$1"
}
stage_tsan() { run_tsan "|$slow_for_tsan"; }
stage_tsan_all() { run_tsan ""; }

stage_fuzz() {
  build fuzz fuzzers
  local target log
  for target in build/fuzz/bin/fuzz_*; do
    echo "fuzzing $(basename "$target")"
    log=build/fuzz/$(basename "$target").log
    # Hides what the targets print themselves, but not the sanitizers' reports.
    "$target" -max_total_time="${RONDO_FUZZ_SECONDS:-4}" -timeout=5 -rss_limit_mb=2048 \
      -artifact_prefix=build/fuzz/ -print_final_stats=1 -close_fd_mask=3 >"$log" 2>&1 ||
      { tail -n 80 "$log"; exit 1; }
    grep number_of_executed_units "$log"
  done
}
# The emulated GPU and the kernels on it, with AddressSanitizer and UBSan.
stage_simt_asan() { build simt-asan simt_tests && run_tests simt-asan -R '^Simt'; }

# In a unity build a source can depend on another one's includes.
stage_alone() {
  cmake --preset release -B build/alone -DCMAKE_UNITY_BUILD=OFF >/dev/null
  cmake --build build/alone -- --quiet
}

# VENV ARGUMENTS...
run_pytest() { python3 tests/run_pytest.py "$1/bin/python" $flaky "${@:2}"; }

# PyTorch programs on the installed wheel, with any build of torch from 2.12 on. Without RONDO_TORCH
# a few of them also run on another release, by the number of commits, with the same wheel of Rondo.
stage_torch() {
  . tests/torch/libraries.sh
  .ci/install.sh --torch
  local venv=build/torch-venv${RONDO_TORCH:+-$RONDO_TORCH} fetching= commits other other_venv
  commits=$(git rev-list --count HEAD)
  # The next release after each round of the long stages, so that every pair has its turn.
  other=${TORCH_IN_TURN[$((commits / ${#LONG_STAGES[@]} % ${#TORCH_IN_TURN[@]}))]}
  other_venv=build/torch-venv-$other
  if [ -n "${RONDO_TORCH:-}" ]; then
    named_torch "$venv" "$RONDO_TORCH"
  else
    named_torch $other_venv $other >build/other_torch.log 2>&1 &
    fetching=$!
    [ -x $venv/bin/pip ] || python3 -m venv $venv
    $venv/bin/pip install -q torch==2.13.0 numpy pytest
  fi
  check_python $venv
  build release hello_allreduce  # so that the wheel has little left to compile
  .ci/wheel.sh
  install_built_wheel $venv
  run_pytest $venv --durations=5 tests/torch "$@"
  # A C program whose ranks torchrun starts itself, with torchrun's store on the port that they get.
  $venv/bin/torchrun --no-python --nproc-per-node 3 --master-port $((15000 + $$ % 15000)) \
    build/release/bin/hello_allreduce
  if [ -n "$fetching" ]; then
    echo "commit number $commits: torch $other"
    wait $fetching || { cat build/other_torch.log; exit 1; }
    install_built_wheel $other_venv
    run_pytest $other_venv tests/torch/test_{hooks,reconfigure,cuda_wheels}.py \
      tests/torch/test_first_steps.py::test_sum_broadcast_barrier
  fi
}

# All of tests/torch on every release: 540 MB of download and 1.4 GB in build for each.
stage_torch_versions() { . tests/torch/libraries.sh && on_every_release; }

# torch's own tests of torch.distributed under the name gloo, in the environment of the stage torch.
# ONLY=barrier runs those whose names contain it. TORCH_SOURCE=DIR (a checkout of torch's sources)
# runs its tests of reconfigure instead, RONDO_TORCH=2.15.0 in the environment of that release.
stage_torch_suite() {
  local venv=build/torch-venv${RONDO_TORCH:+-$RONDO_TORCH} suite=${TORCH_SOURCE:+fault_tolerance}
  $venv/bin/pip install -q expecttest
  $venv/bin/python -m rondo.torch.run tests/torch/"${suite:-torch}_suite.py" ${ONLY:-}
}
stage_torch_all() { stage_torch --slow; }
# Other libraries on CPUs, each in an environment of its own.
stage_clients() { . tests/torch/libraries.sh && with_clients; }
stage_hugging_face() { . tests/torch/libraries.sh && with_hugging_face; }
stage_vllm() { . tests/torch/libraries.sh && with_vllm; }
stage_serving() { . tests/torch/libraries.sh && with_serving; }
stage_plugins() { . tests/torch/libraries.sh && with_plugins; }

# As on a busy machine: no test may depend on its speed. The starvation ends with this program,
# however it ends.
stage_loaded() (
  flaky=
  python3 tests/starvation.py $$ &
  trap "kill $! 2>/dev/null || true" EXIT
  trap 'exit 1' INT TERM
  for stage in dev simt torch; do
    echo "== $stage, loaded"
    "stage_$stage"
  done
)

# The pages of docs as a site in build/site; the reference pages are what the code says, and JSON
# fits its schemas.
stage_site() {
  local venv=build/site-venv
  build dev rondo
  [ -x $venv/bin/pip ] || python3 -m venv $venv
  $venv/bin/pip install -q -r docs/requirements.txt
  python3 docs/site/reference.py build/dev/bin
  $venv/bin/python docs/site/reference.py build/dev/bin --json
  $venv/bin/python -m mkdocs build --strict -q -f .mkdocs.yml
  echo "the site is in build/site: $(find build/site -name '*.html' | wc -l) pages"
}

# srun, mpirun and torchrun between two hosts that are network namespaces.
stage_launchers() { build release hello_allreduce && in_guest bash tests/launch/two_hosts.sh; }
stage_metrics() { build dev rondo && python3 tests/bench/check_metrics.py build/dev/bin; }
stage_deb() { bash tests/abi/packages.sh deb; }
stage_wheel() { bash tests/abi/packages.sh wheel; }
# The wheel for ARM, under qemu.
stage_arm() { bash tests/abi/packages.sh arm; }
# The released wheel in other Debians, and in Ubuntu.
stage_systems() { bash tests/abi/systems.sh; }
# The recipes for conda-forge, Spack and Docker, and how a release is made.
stage_packaging() { bash tests/abi/packages.sh recipes; }
stage_cuda_packages() { bash tests/abi/packages.sh cuda; }  # rondo-ccl-cu13, librondo-cuda1
stage_device_headers() { bash tests/abi/device_headers.sh; }
# NVIDIA's nccl-tests, whose sources NCCL_TESTS="FOLDER..." names, with Rondo's headers and library.
stage_nccl_tests() { build release && bash tests/abi/nccl_tests.sh build/release ${NCCL_TESTS:-}; }
# Pictures and pages of results, as a browser shows them.
stage_pictures() {
  .ci/install.sh --pictures
  build dev rondo
  python3 tests/bench/check_pictures.py build/dev/bin/rondo build/pictures
}
stage_tidy() { python3 .ci/tidy.py; }

# The long stages take turns in CI, one a commit. --for PATH names those that a change needs.
LONG_STAGES=(simt_weak simt_more dev_more asan rdma tidy planted)
stage_in_turn() {
  local commits stage
  commits=$(git rev-list --count HEAD)
  stage=${LONG_STAGES[$((commits % ${#LONG_STAGES[@]}))]}
  echo "commit number $commits: stage $stage"
  "stage_$stage"
}

# Patches plant bugs in a copy of the tree; a test must find each.
stage_planted() { python3 tests/planted/run.py; }
# The whole sweep. For a part: build/dev/bin/fault_sweep threads init socket
stage_faults() { build dev fault_sweep && build/dev/bin/fault_sweep; }
stage_torch_imports() { python3 tests/torch/cuda_wheels/check.py --refresh; }
stage_torch_preload() {
  . tests/torch/libraries.sh
  build release nccl_shared
  python3 tests/torch/cuda_wheels/check.py --import "${RONDO_TORCH:-${TORCH_VERSIONS[-1]}}" \
    build/release/lib/libnccl.so.2
}

# Every kind of stranger at every kind of listener of a job; RONDO_VISITS of each of the ten.
stage_trust() {
  build dev "trust_job rondo_watch rondo"
  python3 tests/trust/strangers.py build/dev/bin/trust_job --visits "${RONDO_VISITS:-1000}" \
    --json build/strangers.json
  python3 tests/trust/watch_strangers.py build/dev/bin/trust_job build/dev/lib/librondo-watch.so \
    build/dev/bin/rondo --visits "${RONDO_VISITS:-1000}"
}

# Runs in a guest with soft-RoCE devices. If no guest is possible (qemu or the kernel is
# unavailable), prints the reason and passes, except in CI.
in_guest() {
  local status=0
  "$@" || status=$?
  [ $status != 77 ] || [ -n "${CI:-}" ] || return 0
  return $status
}
rdma() {  # quick|whole LIMIT
  build dev "rdma_tests engine_tests rondo"
  if ! [ -x build/dev/bin/rdma_tests ]; then
    echo "not run: built without infiniband/verbs.h (libibverbs-dev)"
    [ -z "${CI:-}" ]
    return
  fi
  build simt gpu_direct_tests
  in_guest tests/rdma/guest.sh --wires 2 --limit "$2" -- bash tests/rdma/all.sh build/dev/bin \
    build/simt/bin "$1"
}
stage_rdma() { rdma quick 1800; }  # only a busy machine takes that long
stage_rdma_all() { rdma whole 7200; }
stage_rdma_guest() { in_guest tests/rdma/check_guest.sh; }
# Compares the machine with what is shown of it; the output stays in build/topo-guest.
stage_topo_guest() {
  build dev rondo
  in_guest bash tests/topology/guest.sh build/dev/bin build/topo-guest
}

# Thousands of ranks: sessions of threads, and the records that each rank processes.
stage_scale() {
  build dev scale_tests && NCCL_SOCKET_IFNAME=lo build/dev/bin/scale_tests --gtest_brief=1
}
stage_soak() { bash tests/soak.sh "${RONDO_SOAK_MINUTES:-5}" --json build/soak.json; }

# NAME N: as on a busy machine (tests/starvation.py).
repeat() {
  [ $# = 2 ] || { echo "usage: bash tests/run.sh repeat NAME N" >&2; exit 2; }
  build dev
  python3 tests/run_tests.py build/dev -R "$1" --repeat "$2"
}

case "${1:-}" in
  "") ahead=1 && set -- dev simt ;;
  all) set -- dev simt cuda torch clients site "${LONG_STAGES[@]}" ;;
  --for | --for-change)
    read -ra stages < <(python3 tests/stages_for.py "$@")
    [ ${#stages[@]} -gt 0 ] || exit 2
    [ "$1" = --for ] || changed_tests=$(python3 tests/stages_for.py --tests-of "${@:2}")
    echo "stages: ${stages[*]}"
    set -- "${stages[@]}" ;;
  repeat)
    repeat "${@:2}"
    exit ;;
esac
for stage in "$@"; do
  declare -F "stage_$stage" >/dev/null || { python3 tests/stages_for.py --near "$stage"; exit 2; }
done
export RONDO_TEST_COUNTS=$PWD/build/test-counts
mkdir -p build
: >"$RONDO_TEST_COUNTS"
begun=$(date +%s)
for stage in "$@"; do
  echo "== $stage"
  SECONDS=0
  "stage_$stage"
  echo "== $stage took $SECONDS s"
done
if [ -n "${changed_tests:-}" ]; then
  echo "== the changed tests of dev, starved"
  repeat "$changed_tests" 3
fi
echo "all stages passed: $*; $(($(date +%s) - begun)) s"
awk '{p += $1; f += $2; s += $3} END {print p + 0 " passed, " f + 0 " failed, " s + 0 " skipped"}' \
  "$RONDO_TEST_COUNTS"
python3 tests/flaky.py "$begun"
