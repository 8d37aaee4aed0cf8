#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel into build/wheels: the PyTorch back end, the command, libraries, headers.
#   .ci/wheel.sh            the wheel rondo-ccl
#   .ci/wheel.sh --release  with GCC 11, for systems from glibc 2.28 on (manylinux_2_28)
#   .ci/wheel.sh --cuda     and rondo-ccl-cu13, the library for GPUs (needs nvcc 13)
#   .ci/wheel.sh --sdist    and the source archive, from which pip builds the same wheel
# Variables: CMAKE_ARGS, more options for CMake; PYTHON, the interpreter (python3).
set -euo pipefail
cd "$(dirname "$0")/.."
cuda= sdist= tree=build/wheel
for what in "$@"; do
  case $what in
    --release) tree=build/wheel-release ;;
    --cuda) cuda=1 ;;
    --sdist) sdist=1 ;;
    *) echo "wheel.sh: '$what' is not known: --release, --cuda, --sdist" >&2; exit 2 ;;
  esac
done
.ci/install.sh
.ci/install.sh --torch
if [ $tree = build/wheel-release ]; then
  .ci/install.sh --wheel
  .ci/old_glibc.sh "$(uname -m)" 2.28 build/glibc-2.28
  export CC=gcc-11 CXX=g++-11 CUDAHOSTCXX=g++-11 LDFLAGS="-B$PWD/build/glibc-2.28/"
  .ci/small_openssl.sh "linux-$(uname -m)" build/openssl
  export CMAKE_ARGS="-DOPENSSL_ROOT_DIR=$PWD/build/openssl ${CMAKE_ARGS:-}"
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
