#!/usr/bin/env bash
# Installs what a bare Debian 12 lacks to build and test Rondo. Does nothing where all is there.
#   .ci/install.sh           what a build and the demo need
#   .ci/install.sh --tests   and what the tests and checks need
#   .ci/install.sh --compare and what bench/compare.sh measures Rondo beside
#   .ci/install.sh --torch   and what a Python of Debian lacks to make virtual environments
set -euo pipefail

build=(cmake ninja-build g++ pkg-config libhwloc-dev libhwy-dev libfmt-dev libcli11-dev
       libpugixml-dev nlohmann-json3-dev libboost-context-dev libssl-dev libibverbs-dev
       libucx-dev)
tests=(ccache libgtest-dev libgmock-dev libbenchmark-dev clang-14 clang-format-14 clang-tidy-14
       libclang-rt-14-dev python3 unzip iproute2 procps openmpi-bin mpich
       ibverbs-providers qemu-system-x86 busybox-static kmod xz-utils cpio graphviz
       hwloc-nox)
compare=(python3 python3-matplotlib binutils openmpi-bin libopenmpi-dev mpich libmpich-dev
         iproute2 iperf3 ucx-utils perftest)

packages=("${build[@]}")
case "${1:-}" in
  --tests) packages+=("${tests[@]}") ;;
  --compare) packages+=("${compare[@]}") ;;
  --torch) python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv) ;;
esac

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
    missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "missing packages: ${missing[*]}; run as root or install sudo" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
