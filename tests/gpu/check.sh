#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that only a real GPU can answer, most telling first; nothing that fails or hangs ends
# the rest. Two sets of stages, each planned for less than 8 minutes:
#   A  is it right: a probe of the device, one all-reduce each way, rings, messages and graphs (also
#      under compute-sanitizer), PyTorch and other clients, every suite of gtest's in a process of
#      its own
#   B  is it fast: kernels, ranks as threads and processes, rings and trees by protocol and CTAs,
#      rondo tune, NVIDIA's NCCL beside ours and alone, ncu, and a table %roof of all
# And for a GPU that is there for 15 minutes:
#   NEXT  what no GPU has answered yet (check/open_questions.py), then set A; summary.txt begins
#      with a line for each question: met, missed by how much, or not run and why. Where a command
#      may take 10 minutes only: SECONDS_IN_ALL=560
#
#   bash tests/gpu/check.sh [A|B|NEXT]       builds the preset cuda for this device, then checks
#   bash tests/gpu/check.sh --packed NEXT    uses bin/ and lib/ beside it (tests/gpu/pack.sh)
#   bash tests/gpu/check.sh --built DIR [A|B|NEXT]   uses the bin/ and lib/ of a build: build/simt
# Variables:
#   LIST=1              names the stages with their limits, and does not run them
#   ONLY=ways,*ring*    runs these: whole names, groups before a dot, or patterns
#   OUT=gpu-results     where results go, at most 9 files: results.json, summary.txt, roof.txt,
#                       probe.json, gpu.tune (of rondo tune), tests.txt, programs.txt,
#                       bench.txt, build.txt
#   SECONDS_IN_ALL=N    for all stages; what has no time left is named as not run (460 a set; NEXT:
#                       380 and then 460 for A)
#   JOBS=N              stages of set A at a time; those of B have the device to themselves
#   PATIENCE=N          all limits that many times as long; SIZES=tiny: for an emulated device
# Ends with 1 where a stage failed or hung, with 77 where there is no GPU, with 2 where something
# that a build needs is missing. Nothing here changes a setting of the card.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
built='' sets=''
while [ $# -gt 0 ]; do
  case $1 in
    --packed) built=$here ;;
    --built) built=${2:?--built wants the folder of a build} && shift ;;
    A | B | AB | NEXT) sets=$1 ;;
    *) echo "'$1' is not known here: --packed, --built DIR, A, B or NEXT" >&2 && exit 2 ;;
  esac
  shift
done

command -v python3 >/dev/null || { echo "missing: python3" >&2 && exit 2; }
export OUT=${OUT:-gpu-results}

# Lists what a build needs and this machine lacks: one check of programs, headers and libraries.
missing() {
  local program library
  for program in cmake ninja nvcc c++ pkg-config; do
    command -v $program >/dev/null || echo $program
  done
  command -v c++ >/dev/null || return 0
  c++ -std=c++20 -E -P -x c++ - <<'HEADERS' | grep -v '^$' || true
#if !__has_include(<openssl/crypto.h>)
OpenSSL (libssl-dev)
#endif
#if !__has_include(<boost/context/fiber.hpp>)
Boost.Context (libboost-context-dev)
#endif
#if !__has_include(<fmt/core.h>)
fmt (libfmt-dev)
#endif
#if !__has_include(<hwloc.h>)
hwloc (libhwloc-dev)
#endif
#if !__has_include(<pugixml.hpp>)
pugixml (libpugixml-dev)
#endif
#if !__has_include(<hwy/highway.h>)
Highway (libhwy-dev)
#endif
#if !__has_include(<gtest/gtest.h>)
GoogleTest (libgtest-dev)
#endif
#if !__has_include(<CLI/CLI.hpp>)
CLI11 (libcli11-dev)
#endif
#if !__has_include(<nlohmann/json.hpp>)
JSON for C++ (nlohmann-json3-dev)
#endif
HEADERS
  for library in libcrypto.a libboost_context.a; do
    case $(c++ -print-file-name=$library) in /*) ;; *) echo $library ;; esac
  done
}

if [ -z "$built" ]; then
  lacking=''
  [ "${LIST:-0}" != 0 ] || lacking=$(missing)
  if [ -n "$lacking" ]; then
    echo "nothing was built or checked; a build needs what is missing here:"
    sed 's/^/  /' <<<"$lacking"
    echo "Make a bundle where all is there: bash tests/gpu/pack.sh; here: check.sh --packed"
    exit 2
  fi >&2
  if [ "${LIST:-0}" = 0 ]; then
    arch=$(timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
      head -n 1 | tr -d .) || arch=''
    [ -n "$arch" ] || { echo "no GPU: nvidia-smi finds none on this machine" >&2 && exit 77; }
    mkdir -p "$OUT"
    OUT=$(cd "$OUT" && pwd)
    cd "$here/../.."
    { cmake --preset cuda -DRONDO_PORTABLE=ON "-DCMAKE_CUDA_ARCHITECTURES=$arch-real" &&
      cmake --build --preset cuda -j "$(nproc)" --target gpu_tests gpu_process_tests gpu_probe \
        rondo_shared nccl_shared rondo_watch rondo nccl_contestant micro_device \
        device_api_check device_api_check_theirs moe_check; } >"$OUT/build.txt" 2>&1 || {
      echo "the build failed; its last lines:" >&2
      tail -n 20 "$OUT/build.txt" >&2
      exit 1
    }
  fi
  built=$here/../../build/cuda
fi
exec python3 "$here/check" "$built" "${sets:-AB}"
