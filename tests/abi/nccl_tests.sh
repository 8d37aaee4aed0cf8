#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles and links NVIDIA's nccl-tests with an installed Rondo: its nccl.h, nccl_device.h and
# libnccl.so, no file of NVIDIA's NCCL. Needs nvcc, and the sources: folders with nccl-tests'
# releases, which this script does not change. Fails if one does not compile or link, or if its
# programs look for another NCCL.
#   bash tests/abi/nccl_tests.sh BUILD FOLDER...      BUILD: of Rondo, with api/nccl_shared
set -euo pipefail
build=$1
shift
if ! command -v nvcc >/dev/null; then
  echo "not run: there is no nvcc on this machine"
  exit
fi
if [ $# = 0 ]; then
  echo "not run: NCCL_TESTS names no folder with the sources of nccl-tests"
  exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/nccl" >/dev/null
home=$(dirname "$(dirname "$(command -v nvcc)")")
for sources in "$@"; do
  [ -f "$sources/src/all_reduce.cu" ] || { echo "$sources: no sources of nccl-tests"; exit 1; }
  version=$(grep -m1 -ohP 'NCCL_TESTS_VERSION "\K[^"]+' -r "$sources/src" || echo unknown)
  rm -rf "$work/sources" "$work/out"
  cp -r "$sources" "$work/sources"
  make -C "$work/sources" -j2 MPI=0 NCCL_HOME="$work/nccl" CUDA_HOME="$home" \
    BUILDDIR="$work/out" NVCC_GENCODE="-gencode=arch=compute_90,code=sm_90" >"$work/log" 2>&1 || {
    echo "nccl-tests $version:"
    grep -m5 -E 'error|Error|undefined' "$work/log" || tail -n 20 "$work/log"
    exit 1
  }
  programs=("$work"/out/*_perf)
  for program in "${programs[@]}"; do
    LD_LIBRARY_PATH=$work/nccl/lib ldd "$program" >"$work/needs" 2>&1
    grep -q "libnccl.so.2 => $work/nccl/lib/" "$work/needs" || { cat "$work/needs"; exit 1; }
  done
  echo "nccl-tests $version: ${#programs[@]} programs compile and link"
done
