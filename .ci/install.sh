#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what a system lacks to build Rondo, by apt-get, dnf, zypper or pacman; their names of the
# packages: cmake/packages.txt. On Debian 12 also what the tests need. Does nothing if all is there.
#   .ci/install.sh           what a build and the demo need
#   .ci/install.sh --torch   and what a Python of Debian lacks: virtual environments, its headers
# On Debian only:
#   .ci/install.sh --tests   and what the tests and checks need
#   .ci/install.sh --compare and what bench/compare.sh measures Rondo beside
#   .ci/install.sh --wheel   and GCC 11 and what unpacks sources, for .ci/wheel.sh --release
#   .ci/install.sh --arm     and GCC 11 for ARM, and qemu, which runs ARM's programs
#   .ci/install.sh --deb     and what .ci/deb.sh needs
#   .ci/install.sh --release and what signs a release, for .ci/release.sh
#   .ci/install.sh --launchers and Slurm, Open MPI and MPICH, which start jobs
#   .ci/install.sh --pictures and what draws pictures, and a browser that shows them (300 MB)
#   .ci/install.sh --metrics and Prometheus, which scrapes a job's metrics
# Exits with 2, after one line, if packages are missing and cannot be installed; after the table of
# packages where there is none of these programs. Where CMAKE_PREFIX_PATH is set and nothing can be
# installed, it leaves the search to CMake.
set -euo pipefail
table=$(dirname "$0")/../cmake/packages.txt

manager=
for one in apt-get dnf zypper pacman; do
  if command -v $one >/dev/null; then manager=$one; break; fi
done
refuse() {
  echo "install.sh: $*" >&2
  exit 2
}
# TEXT: where nothing can be installed, a user's own folders may have what is needed.
refuse_unless_prefix() {
  [ -z "${CMAKE_PREFIX_PATH:-}" ] || {
    echo "install.sh: $1: CMake searches $CMAKE_PREFIX_PATH" >&2
    exit 0
  }
  shift
  refuse "$@"
}
if [ -z "$manager" ]; then
  [ -n "${CMAKE_PREFIX_PATH:-}" ] || grep '|' "$table" >&2
  refuse_unless_prefix "no apt-get, dnf, zypper or pacman" "there is no apt-get, dnf, zypper or" \
    "pacman: install the packages of this table, or build them into a folder and name it in" \
    "CMAKE_PREFIX_PATH"
fi

# The column of this manager.
mapfile -t packages < <(awk -F ' *[|] *' -v manager=$manager '
  /[|]/ && !column { for (i = 1; i <= NF; i++) if ($i == manager) column = i; next }
  /[|]/ { print $column }' "$table")
tests=(ccache libgtest-dev libgmock-dev libbenchmark-dev clang-14 clang-format-14 clang-tidy-14
       libclang-rt-14-dev python3 unzip iproute2 procps openmpi-bin mpich
       ibverbs-providers qemu-system-x86 busybox-static kmod xz-utils cpio graphviz
       hwloc-nox gnuplot-nox)
compare=(python3 python3-matplotlib binutils openmpi-bin libopenmpi-dev mpich libmpich-dev
         libfabric1 iproute2 iperf3 ucx-utils perftest)
launchers=(slurmctld slurmd slurm-client munge openmpi-bin mpich iproute2 python3)

more=()
case "${1:-}" in
  --tests) more=("${tests[@]}") ;;
  --compare) more=("${compare[@]}") ;;
  --launchers) more=("${launchers[@]}") ;;
  --wheel) more=(g++-11 make dpkg-dev patch) ;;
  --arm) more=(g++-11-aarch64-linux-gnu qemu-user) ;;
  --pictures) more=(chromium gnuplot-nox ccache python3) ;;
  --metrics) more=(prometheus python3) ;;
  --deb) more=(ccache dpkg-dev debootstrap file) ;;
  --release) more=(minisign) ;;
  --torch)
    headers=$(python3 -c 'import sysconfig; print(sysconfig.get_config_var("INCLUDEPY"))') ||
      refuse "there is no python3"
    case $manager in
      apt-get)
        python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
        [ -e "$headers/Python.h" ] || packages+=(python3-dev) ;;
      dnf | zypper) [ -e "$headers/Python.h" ] || packages+=(python3-devel) ;;
    esac ;;
esac
[ ${#more[@]} -eq 0 ] || [ $manager = apt-get ] ||
  refuse "$1: only on Debian, whose packages these are: ${more[*]}"
packages+=(${more[@]+"${more[@]}"})

is_installed() {
  case $manager in
    apt-get) dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed' ;;
    pacman) pacman -T "$1" >/dev/null 2>&1 ;;
    *) rpm -q --whatprovides "$1" >/dev/null 2>&1 ;;
  esac
}
missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null ||
    refuse_unless_prefix "missing packages: ${missing[*]}" "missing packages: ${missing[*]}; run" \
      "this as root, install sudo, or build them into a folder and name it in CMAKE_PREFIX_PATH"
  as_root=(sudo)
fi

log=$(mktemp) || refuse "no file can be made in ${TMPDIR:-/tmp}: free some space there"
trap 'rm -f "$log"' EXIT
# Prints the manager's own error, and what to do.
explain() {
  local why remedy="mend that"
  why=$(grep -m 1 'Failed to fetch' "$log" || grep -m 1 '^E: ' "$log" ||
    grep -im 1 -e '^error' -e 'no match for' -e 'not found' "$log" || tail -n 1 "$log")
  case $(cat "$log") in
    *'free space'* | *'No space left'*) remedy="free some space on the disk" ;;
    *'o match for argument'*) remedy="enable the repositories EPEL and CRB (RHEL)" ;;
    *'target not found'*) remedy="refresh the databases (pacman -Syu)" ;;
    *'Failed to fetch'* | *resolv* | *onnect*) remedy="connect this machine to the network" ;;
    *'Could not get lock'* | *'Unable to acquire'* | *'locked'*)
      remedy="wait for the other $manager to end" ;;
  esac
  refuse "cannot install ${missing[*]}: ${why#[EW]: }; $remedy and run this again"
}
echo "installing: ${missing[*]}"
case $manager in
  apt-get)
    export DEBIAN_FRONTEND=noninteractive
    # A failed update does no harm if the packages are found anyway.
    "${as_root[@]}" apt-get update -qq >"$log" 2>&1 || true
    # Downloads everything before it unpacks anything. Another apt-get may work for five minutes.
    command=(apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300) ;;
  dnf) command=(dnf install -y -q) ;;
  zypper) command=(zypper --non-interactive --quiet install --no-recommends) ;;
  pacman) command=(pacman -S --noconfirm --needed --quiet) ;;
esac
"${as_root[@]}" "${command[@]}" "${missing[@]}" >>"$log" 2>&1 || explain
