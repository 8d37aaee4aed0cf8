#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What bench/compare.sh measures Rondo beside, besides the MPIs of Debian: Intel MPI, oneCCL and
# DeepSpeed's shared-memory all-reduce. All of it goes to build/compare.
#   bench/compare/rivals.sh              fetches them from PyPI (260 MB), compiles what calls them
#   bench/compare/rivals.sh --installed  compiles for those that are there
# Names on stderr each one that it cannot have, with the reason. compare.py leaves those out.
# DeepSpeed's needs torch in build/torch-venv, which bash tests/run.sh torch makes, or in
# RONDO_TORCH_VENV.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=build/compare
venv=$out/venv torch=${RONDO_TORCH_VENV:-build/torch-venv}
fetches=true
[ "${1:-}" = --installed ] && fetches=false
mkdir -p $out

fail() {
  echo "$*" >&2
  return 1
}

fetch() {  # PIP-OPTIONS...
  $fetches || fail "not installed; bench/compare/rivals.sh installs it" || return
  [ -x $venv/bin/pip ] || { .ci/install.sh --torch && python3 -m venv $venv; } || return
  $venv/bin/pip "$@" || fail "pip $* failed"
}

# PROGRAM SOURCE COMPILER-OPTIONS...
compile() {
  local program=$out/contestant.$1 source=bench/compare/$2
  [ "$program" -nt "$source" ] && [ "$program" -nt bench/compare/loop.h ] && return
  g++ -std=c++20 -O2 -w -I. -isystem $venv/include "${@:3}" -o "$program" ||
    fail "$source does not compile"
}

intel_mpi() {
  local lib=$venv/lib
  [ -e $lib/libmpi.so.12 ] ||
    fetch install -q --no-deps impi-rt==2021.19.0 impi-devel==2021.19.0 || return
  compile intel_mpi mpi_contestant.cc bench/compare/mpi_contestant.cc $lib/libmpi.so.12 \
    "-Wl,-rpath,$PWD/$lib"
}

# libccl.so.2 is in the package oneccl only; the libccl.so.1 beside it needs SYCL, that of
# oneccl-cpu does not.
oneccl() {
  local lib=$venv/lib
  if ! [ -e $lib/libccl.so.2 ]; then
    fetch install -q --no-deps oneccl==2022.2.0 oneccl-cpu-devel==2022.2.0 || return
    fetch install -q --no-deps --force-reinstall oneccl-cpu==2022.2.0 || return
  fi
  compile oneccl oneccl_contestant.cc bench/compare/oneccl_contestant.cc $lib/libccl.so.1 \
    "-Wl,-rpath,$PWD/$lib" "-Wl,-rpath-link,$lib"
}

# Its source includes torch's header for extensions of Python, but needs only torch's types.
deepspeed() {
  local package=deepspeed-0.19.8 comm=$out/deepspeed/csrc/cpu/comm alone=$out/torch_alone
  local found=("$torch"/lib/python3*/site-packages/torch)
  [ -e "${found[0]}/lib/libtorch_cpu.so" ] ||
    fail "no torch in $torch; bash tests/run.sh torch installs it" || return
  if ! [ -e $comm/shm.cpp ]; then
    fetch download -q --no-deps --no-binary :all: -d $out "${package/-/==}" || return
    mkdir -p $out/deepspeed
    tar -xzf $out/$package.tar.gz -C $out/deepspeed --strip-components=1 $package/csrc/cpu/comm ||
      return
  fi
  mkdir -p $alone/torch
  echo '#include <torch/types.h>' >$alone/torch/extension.h
  compile deepspeed deepspeed_contestant.cc -fopenmp -I$alone -I$comm \
    -isystem "${found[0]}/include" -isystem "${found[0]}/include/torch/csrc/api/include" \
    bench/compare/deepspeed_contestant.cc $comm/shm.cpp "-L${found[0]}/lib" -ltorch_cpu -lc10 \
    "-Wl,-rpath,$(realpath "${found[0]}")/lib"
}

for name in intel_mpi oneccl deepspeed; do
  if ! $name >$out/$name.log 2>&1; then
    rm -f $out/contestant.$name
    echo "compare: without $name: $(tail -n 1 $out/$name.log) ($out/$name.log)" >&2
  fi
done
exit 0
