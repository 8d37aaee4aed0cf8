#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# packages.sh deb|wheel|arm|cuda|recipes: builds packages twice and compares their bytes, and uses
# them; tries recipes of others.
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
  [ -z "$(find build/deb-prefix -name 'libnccl*' -o -name 'nccl*.h')" ] ||
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
  $venv/bin/pip install -q build/wheels/rondo_ccl-*.whl
  began="$began $EPOCHREALTIME"
  $venv/bin/torchrun --standalone --nproc-per-node 2 $venv/ddp.py | tee $venv/losses
  grep -q '^epoch 4: loss ' $venv/losses
  awk -v times="$began $EPOCHREALTIME" 'BEGIN { split(times, at, " ")
    printf "pip install: %.1f s, then the first result: %.1f s\n", at[2] - at[1], at[3] - at[2] }'
}

# The wheel has at most 6 MB, and a version and the licence of each thing that is linked in.
check_contents() {
  local size
  size=$(stat -c %s build/wheels/rondo_ccl-*.whl)
  echo "the wheel has $size bytes, at most 6000000"
  [ "$size" -le 6000000 ]
  python3 - build/wheel-files <<'PYTHON'
import json, pathlib, sys
files = pathlib.Path(sys.argv[1])
(sbom,) = files.glob("rondo_ccl-*.dist-info/sboms/*.cdx.json")
for one in json.loads(sbom.read_text())["components"]:
    licence = files / "rondo/share/doc/licenses" / f"{one['name']}.txt"
    assert one["version"] and one["licenses"] and licence.stat().st_size > 500, one
    print(one["name"], one["version"], one["licenses"][0]["expression"], sep=", ")
PYTHON
}

# The command runs on a processor without what x86-64-v2 adds (SSSE3, SSE4, POPCNT).
old_processor() {
  .ci/install.sh --arm
  local old=(qemu-x86_64 -cpu qemu64) rondo=build/wheel-files/rondo/bin/rondo
  chmod +x $rondo
  timeout -s KILL 300 "${old[@]}" $rondo run -n 2 --no-prefix -- \
    "${old[@]}" $rondo bench all_reduce -b 4 -e 64K -f 16 -n 2 --no-progress |
    grep 'Out of bounds values : 0 OK'
}

# No file of the wheel asks for a symbol that glibc 2.28 lacks.
check_symbols() {
  local file newest
  rm -rf build/wheel-files
  unzip -q -d build/wheel-files build/wheels/rondo_ccl-*.whl
  while read -r file; do
    newest=$(readelf -VW "$file" 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -V | tail -n 1) ||
      newest=
    [ -z "$newest" ] || echo "${file#build/wheel-files/} needs $newest"
    printf '%s\nGLIBC_2.28\n' "$newest" | sort -VC || { echo "newer than GLIBC_2.28"; exit 1; }
  done < <(find build/wheel-files/rondo -path '*/bin/*' -o -name '*.so*')
}

# The wheel as it is released, from its source archive as well.
wheel() {
  local library
  .ci/wheel.sh --release --sdist
  (cd build/wheels && sha256sum ./*.whl) >build/wheels.sha256
  build/wheel-venv/bin/pip install -q auditwheel
  build/wheel-venv/bin/python -m auditwheel show build/wheels/rondo_ccl-*.whl |
    tee build/wheel.audit
  grep -q 'manylinux_2_28' build/wheel.audit
  check_symbols
  check_contents
  old_processor
  first_result
  ls build/first-result/lib/python*/site-packages/rondo/include/nccl_device.h >/dev/null
  for library in librondo.so.1 libnccl.so.2; do
    tests/abi/check_exports.sh build/first-result/lib/python*/site-packages/rondo/lib/$library \
      $library
  done
  cc -shared -fPIC tests/abi/foreign_nccl.c -o build/foreign_nccl.so
  library=$(ls build/first-result/lib/python*/site-packages/rondo/lib/librondo-watch.so)
  python3 tests/abi/check_watch.py "$library" build/foreign_nccl.so build/first-result/bin/rondo
  CC=gcc-11 CXX=g++-11 build/wheel-venv/bin/pip wheel -q --no-deps -w build/wheel-of-sdist \
    build/wheels/rondo_ccl-*.tar.gz
  rm -rf build/wheel-release build/openssl-*
  .ci/wheel.sh --release
  (cd build/wheels && sha256sum -c --quiet ../wheels.sha256)
}

# The wheel for ARM; under qemu its command with four ranks, and the kernels' unit tests. Tests link
# shared libraries that need a newer glibc than the wheel.
arm() {
  local emulated=(qemu-aarch64 -L "$PWD/build/root-aarch64") rondo=build/wheel-files/rondo/bin/rondo
  local tests=build/wheel-release-aarch64 collective
  export CMAKE_ARGS="-DRONDO_TESTS=ON -DCMAKE_EXE_LINKER_FLAGS_RELEASE=-Wl,--allow-shlib-undefined
    -DCMAKE_GTEST_DISCOVER_TESTS_DISCOVERY_MODE=PRE_TEST ${CMAKE_ARGS:-}"
  .ci/wheel.sh --arch aarch64
  check_symbols
  check_contents
  chmod +x $rondo
  "${emulated[@]}" $rondo doctor || [ $? = 1 ]  # findings about the machine
  for collective in all_reduce alltoall; do
    timeout -s KILL 300 "${emulated[@]}" $rondo run -n 4 --no-prefix -- \
      "${emulated[@]}" $rondo bench $collective -b 4 -e 256K -f 64 -n 2 --no-progress |
      grep 'Out of bounds values : 0 OK'
  done
  cmake --build $tests --target unit_tests | tail -n 1
  timeout -s KILL 1800 "${emulated[@]}" $tests/bin/unit_tests --gtest_brief=1 \
    --gtest_filter='*ReduceKernels*:Number.*:CopyRows.*:ReductionTable.*-*/AVX*'
}

# rondo-ccl-cu13 and librondo-cuda1 with code for one architecture, beside the packages for hosts.
cuda() {
  command -v nvcc >/dev/null || { echo "not run: there is no nvcc on this machine"; return; }
  export CMAKE_ARGS="-DCMAKE_CUDA_ARCHITECTURES=90-real ${CMAKE_ARGS:-}"
  .ci/wheel.sh --release --cuda
  cuda_wheel
  .ci/deb.sh --cuda --try
  sha256sum build/wheels/rondo_ccl_cu13-*.whl build/debs/librondo-cuda1_*.deb >build/cuda.sha256
  rm -rf build/wheel-release-cuda build/deb-cuda
  .ci/wheel.sh --release --cuda
  .ci/deb.sh --cuda
  sha256sum -c --quiet build/cuda.sha256
}

# Both wheels in a new environment: `rondo preload` names the library of rondo-ccl-cu13 while it is
# there. Removal leaves no file.
cuda_wheel() {
  local venv=build/cuda-venv library package
  rm -rf $venv
  python3 -m venv $venv
  find $venv | sort >build/cuda-venv.before
  $venv/bin/pip install -q --no-index build/wheels/rondo_ccl-*.whl build/wheels/rondo_ccl_cu13-*.whl
  library=$($venv/bin/python -m rondo preload)
  library=${library#LD_PRELOAD=}
  [[ $library == */rondo_cu13/lib/libnccl.so.2 ]] || { echo "preload names $library"; exit 1; }
  tests/abi/check_exports.sh "$library" libnccl.so.2
  package=$($venv/bin/python -m rondo prefix)
  cc tests/abi/cuda_library.c "-I$package/include" -ldl -o build/cuda_library
  build/cuda_library "$library"
  cc api/examples/hello_allreduce.c "-I$package/include" "-L$package/lib" -lnccl -o build/cuda_hello
  $venv/bin/rondo run --preload -n 2 -- build/cuda_hello
  $venv/bin/pip uninstall -q -y rondo-ccl-cu13
  [ "$($venv/bin/rondo preload)" = "LD_PRELOAD=$package/lib/libnccl.so.2" ]
  $venv/bin/pip uninstall -q -y rondo-ccl
  find $venv | sort | diff build/cuda-venv.before - || { echo "left after removal"; exit 1; }
}

# The recipes of .ci/packaging, and a release of a copy of the tree. As root: chroots.
recipes() {
  local venv=build/recipes-venv
  .ci/install.sh --deb
  .ci/install.sh --release
  tests/abi/check_release.sh build/release-check
  [ -x $venv/bin/pip ] || python3 -m venv $venv
  $venv/bin/pip install -q py-rattler-build==0.73.0 build
  $venv/bin/python -m build -q --sdist -o build/wheels api/torch
  $venv/bin/python tests/abi/check_recipes.py build/wheels/rondo_ccl-*.tar.gz \
    build/recipes
  python3 tests/abi/docker_steps.py .ci/packaging/docker/Dockerfile . build/docker --version \
    "bench all_reduce --ranks 4 -b 4 -e 64K -f 16 -n 5 --no-progress"
}

case "${1:-}" in
  deb | wheel | arm | cuda | recipes) "$1" ;;
  *) echo "usage: packages.sh deb|wheel|arm|cuda|recipes" >&2; exit 2 ;;
esac
