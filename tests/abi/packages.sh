#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# packages.sh deb|wheel: builds packages twice and compares their bytes, and uses them.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Debian packages, also in a new Debian.
deb() {
  .ci/deb.sh
  (cd build/debs && sha256sum ./*.deb) >build/debs.sha256
  leave_nccl_out
  rm -rf build/deb
  .ci/deb.sh --try
  (cd build/debs && sha256sum -c --quiet ../debs.sha256)
}

# For systems where another package has nccl.h and libnccl.so.2.
leave_nccl_out() {
  rm -rf build/deb-prefix
  cmake -B build/deb -DRONDO_INSTALL_NCCL=OFF >/dev/null
  DESTDIR=$PWD/build/deb-prefix cmake --install build/deb >/dev/null
  [ -n "$(find build/deb-prefix -name librondo.so.1)" ]
  [ -z "$(find build/deb-prefix -name 'libnccl*' -o -name nccl.h)" ] ||
    { echo "RONDO_INSTALL_NCCL=OFF installs NCCL's names"; exit 1; }
}

# From `pip install` of the wheel to the loss of the page's first training on two ranks, in an
# environment that has torch and nothing else.
first_result() {
  local venv=build/first-result began
  rm -rf $venv
  python3 -m venv $venv
  $venv/bin/pip install -q torch==2.13.0 numpy
  sed -n '/^cat > .tmp.rondo_ddp.py/,/^EOF/p' docs/start/pytorch.md | sed '1d;$d' >$venv/ddp.py
  began=$EPOCHREALTIME
  $venv/bin/pip install -q build/wheels/rondo-*.whl
  began="$began $EPOCHREALTIME"
  $venv/bin/torchrun --standalone --nproc-per-node 2 $venv/ddp.py | tee $venv/losses
  grep -q '^epoch 4: loss ' $venv/losses
  awk -v times="$began $EPOCHREALTIME" 'BEGIN { split(times, at, " ")
    printf "pip install: %.1f s, then the first result: %.1f s\n", at[2] - at[1], at[3] - at[2] }'
}

# The wheel as it is released, from its source archive as well.
wheel() {
  .ci/wheel.sh --release --sdist
  (cd build/wheels && sha256sum ./*.whl) >build/wheels.sha256
  build/wheel-venv/bin/pip install -q auditwheel
  build/wheel-venv/bin/python -m auditwheel show build/wheels/rondo-*.whl | tee build/wheel.audit
  grep -q 'manylinux_2_34' build/wheel.audit
  first_result
  CC=gcc-11 CXX=g++-11 build/wheel-venv/bin/pip wheel -q --no-deps -w build/wheel-of-sdist \
    build/wheels/rondo-*.tar.gz
  rm -rf build/wheel-release
  .ci/wheel.sh --release
  (cd build/wheels && sha256sum -c --quiet ../wheels.sha256)
}

case "${1:-}" in
  deb | wheel) "$1" ;;
  *) echo "usage: packages.sh deb|wheel" >&2; exit 2 ;;
esac
