#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what a bare Debian 12 lacks to build and test Rondo. Does nothing if all is present.
#   .ci/install.sh           what a build and the demo need
#   .ci/install.sh --tests   and what the tests and checks need
#   .ci/install.sh --compare and what bench/compare.sh measures Rondo beside
#   .ci/install.sh --wheel   and GCC 11 and what unpacks sources, for .ci/wheel.sh --release
#   .ci/install.sh --arm     and GCC 11 for ARM, and qemu, which runs ARM's programs
#   .ci/install.sh --deb     and what .ci/deb.sh needs
#   .ci/install.sh --launchers and Slurm, Open MPI and MPICH, which start jobs
#   .ci/install.sh --pictures and what draws pictures, and a browser that shows them (300 MB)
#   .ci/install.sh --metrics and Prometheus, which scrapes a job's metrics
#   .ci/install.sh --torch   and what a Python of Debian lacks: virtual environments, its headers
# Exits with 2, after one line, if packages are missing and cannot be installed.
set -euo pipefail

build=(cmake ninja-build g++ pkg-config libhwloc-dev libhwy-dev libfmt-dev libcli11-dev
       libpugixml-dev nlohmann-json3-dev libboost-context-dev libssl-dev libibverbs-dev
       libucx-dev)
tests=(ccache libgtest-dev libgmock-dev libbenchmark-dev clang-14 clang-format-14 clang-tidy-14
       libclang-rt-14-dev python3 unzip iproute2 procps openmpi-bin mpich
       ibverbs-providers qemu-system-x86 busybox-static kmod xz-utils cpio graphviz
       hwloc-nox gnuplot-nox)
compare=(python3 python3-matplotlib binutils openmpi-bin libopenmpi-dev mpich libmpich-dev
         libfabric1 iproute2 iperf3 ucx-utils perftest)
launchers=(slurmctld slurmd slurm-client munge openmpi-bin mpich iproute2 python3)

packages=("${build[@]}")
case "${1:-}" in
  --tests) packages+=("${tests[@]}") ;;
  --compare) packages+=("${compare[@]}") ;;
  --launchers) packages+=("${launchers[@]}") ;;
  --wheel) packages+=(g++-11 make dpkg-dev patch) ;;
  --arm) packages+=(g++-11-aarch64-linux-gnu qemu-user) ;;
  --pictures) packages+=(chromium gnuplot-nox ccache python3) ;;
  --metrics) packages+=(prometheus python3) ;;
  --deb) packages+=(ccache dpkg-dev debootstrap file) ;;
  --torch)
    python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
    headers=$(python3 -c 'import sysconfig; print(sysconfig.get_config_var("INCLUDEPY"))')
    [ -e "$headers/Python.h" ] || packages+=(python3-dev)
    ;;
esac

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
    missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

refuse() {
  echo "install.sh: $*" >&2
  exit 2
}
command -v apt-get >/dev/null ||
  refuse "this is not Debian (no apt-get): install what these packages hold: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null ||
    refuse "missing packages: ${missing[*]}; run this as root or install sudo"
  as_root=(sudo)
fi

log=$(mktemp) || refuse "no file can be made in ${TMPDIR:-/tmp}: free some space there"
trap 'rm -f "$log"' EXIT
# Prints apt-get's own error, and what to do.
explain() {
  local why remedy="mend that"
  why=$(grep -m 1 'Failed to fetch' "$log" || grep -m 1 '^E: ' "$log" || tail -n 1 "$log")
  case $(cat "$log") in
    *'free space'* | *'No space left'*) remedy="free some space on the disk" ;;
    *'Failed to fetch'* | *resolv* | *onnect*) remedy="connect this machine to the network" ;;
    *'Could not get lock'* | *'Unable to acquire'*) remedy="wait for the other apt-get to end" ;;
  esac
  refuse "cannot install ${missing[*]}: ${why#[EW]: }; $remedy and run this again"
}
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# A failed update does no harm if the packages are found anyway.
"${as_root[@]}" apt-get update -qq >"$log" 2>&1 || true
# Downloads everything before it unpacks anything. Another apt-get may work for five minutes.
"${as_root[@]}" apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 \
  "${missing[@]}" >>"$log" 2>&1 ||
  explain
