#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel into build/wheels: the PyTorch back end, the command, libraries, headers.
#   .ci/wheel.sh            the wheel rondo-ccl
#   .ci/wheel.sh --release  with GCC 11, for systems from glibc 2.28 on (manylinux_2_28)
#   .ci/wheel.sh --arch aarch64  the same for ARM, on x86-64 too
#   .ci/wheel.sh --cuda     and rondo-ccl-cu13, the library for GPUs (needs nvcc 13)
#   .ci/wheel.sh --sdist    and the source archive, from which pip builds the same wheel
# Variables: CMAKE_ARGS, more options for CMake; PYTHON, the interpreter (python3).
set -euo pipefail
cd "$(dirname "$0")/.."
cuda= sdist= tree=build/wheel machine=$(uname -m) compiler=
while [ $# -gt 0 ]; do
  case $1 in
    --release) tree=build/wheel-release ;;
    --arch) machine=${2:-} tree=build/wheel-release; shift ;;
    --cuda) cuda=1 ;;
    --sdist) sdist=1 ;;
    *) echo "wheel.sh: '$1' is not known: --release, --arch, --cuda, --sdist" >&2; exit 2 ;;
  esac
  shift
done
.ci/install.sh
.ci/install.sh --torch
if [ $tree = build/wheel-release ]; then
  .ci/install.sh --wheel
  if [ "$machine" != "$(uname -m)" ]; then
    [ "$machine$cuda" = aarch64 ] ||
      { echo "wheel.sh: --arch: only aarch64 without --cuda, not '$machine'" >&2; exit 2; }
    .ci/install.sh --arm
    .ci/arm_root.sh build/root-aarch64
    export RONDO_ARM_ROOT=$PWD/build/root-aarch64
    export CFLAGS="-isystem $RONDO_ARM_ROOT/usr/include"  # Debian's Python.h asks for one of ARM
    export CMAKE_ARGS="--toolchain $PWD/.ci/aarch64.cmake ${CMAKE_ARGS:-}"
    tree+=-aarch64 compiler=aarch64-linux-gnu-
  fi
  .ci/old_glibc.sh "$machine" 2.28 "build/glibc-2.28-$machine"
  export CC=${compiler}gcc-11 CXX=${compiler}g++-11 CUDAHOSTCXX=${compiler}g++-11
  .ci/small_openssl.sh "linux-$machine" "build/openssl-$machine"
  openssl=$PWD/build/openssl-$machine
  CMAKE_ARGS="-DOPENSSL_CRYPTO_LIBRARY=$openssl/lib/libcrypto.a ${CMAKE_ARGS:-}"
  export CMAKE_ARGS="-DOPENSSL_INCLUDE_DIR=$openssl/include $CMAKE_ARGS"
  export LDFLAGS="-B$PWD/build/glibc-2.28-$machine/"
  # Of the variable CMake remembers the first value.
  for kind in EXE SHARED MODULE; do
    CMAKE_ARGS="-DCMAKE_${kind}_LINKER_FLAGS=$LDFLAGS $CMAKE_ARGS"
  done
fi
if [ -n "$cuda" ] && ! command -v nvcc >/dev/null; then
  echo "wheel.sh: --cuda needs nvcc 13 in PATH" >&2
  exit 2
fi
date=$(git log -1 --format=%ct 2>/dev/null || echo 315532800)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$date}
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
venv=build/wheel-venv out=build/wheels
mkdir -p build
[ -x $venv/bin/pip ] || "${PYTHON:-python3}" -m venv $venv
rm -rf $out
RONDO_BUILD_DIR=$PWD/$tree $venv/bin/pip wheel -q --no-deps -w $out ./api/torch
if [ -n "$cuda" ]; then
  RONDO_BUILD_DIR=$PWD/$tree-cuda $venv/bin/pip wheel -q --no-deps -w $out ./api/cu13
fi
if [ -n "$sdist" ]; then
  $venv/bin/pip install -q build
  $venv/bin/python -m build -q --sdist -o $out api/torch
fi
ls -l $out
made=($out/rondo_ccl-*manylinux_2_28_"$machine".whl)
if [ $tree != build/wheel ] && [ ! -e "${made[0]}" ]; then
  echo "wheel.sh: a symbol newer than glibc 2.28 is in it: remove $tree and run this again" >&2
  exit 1
fi
