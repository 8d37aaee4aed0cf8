#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# packages.sh deb|wheel: builds packages twice and compares their bytes, and uses them.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Debian packages, also in a new Debian.
deb() {
  .ci/deb.sh
  (cd build/debs && sha256sum ./*.deb) >build/debs.sha256
  rm -rf build/deb
  .ci/deb.sh --try
  (cd build/debs && sha256sum -c --quiet ../debs.sha256)
}

# The wheel as it is released, from its source archive as well.
wheel() {
  .ci/wheel.sh --release --sdist
  (cd build/wheels && sha256sum ./*.whl) >build/wheels.sha256
  build/wheel-venv/bin/pip install -q auditwheel
  build/wheel-venv/bin/python -m auditwheel show build/wheels/rondo-*.whl | tee build/wheel.audit
  grep -q 'manylinux_2_34' build/wheel.audit
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
