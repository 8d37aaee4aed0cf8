#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The released wheel in root file systems of other distributions, made below build/systems.
#   tests/abi/systems.sh           all of them; those that cannot be fetched are named
#   tests/abi/systems.sh trixie    some
# Where Python is older than 3.10 the wheel's command and libraries run without it. i386 is a
# bookworm with a 32-bit Python, which must refuse the wheel. As root: the user nobody tries the
# wheel, in namespaces that end with all their processes.
set -euo pipefail
cd "$(dirname "$0")/../.."
systems=("$@")
[ $# -gt 0 ] || systems=(buster bullseye bookworm trixie focal jammy noble resolute i386)
seconds=600
.ci/install.sh --deb
find_wheel() { wheel=$(ls build/wheels/rondo_ccl-*manylinux_2_28_"$(uname -m)".whl 2>/dev/null); }
find_wheel || { .ci/wheel.sh --release && find_wheel; }

# SYSTEM: fails after a line if its packages cannot be had. Debian has no keys of Ubuntu's archive,
# so debootstrap warns that it does not check them.
fetch() {
  local log=build/systems/$1.log from=(http://deb.debian.org/debian)
  local options=(--variant=minbase --include=python3,python3-venv,unzip) release=$1
  case $1 in
    i386) options+=(--arch=i386) release=bookworm ;;
    focal | jammy | noble | resolute)
      from=(http://archive.ubuntu.com/ubuntu /usr/share/debootstrap/scripts/jammy)
      options+=(--components=main,universe) ;;
  esac
  debootstrap "${options[@]}" $release "build/systems/$1" "${from[@]}" >"$log" 2>&1 ||
    { echo "not run: $1: $(grep -m 1 '^E: ' "$log" || tail -n 1 "$log")"; return 1; }
}

# PYTHON: a release of torch for that version, in build/systems/torch-PYTHON.
fetch_torch() {
  local folder=build/systems/torch-$1 pip=build/wheel-venv/bin/pip
  [ ! -e "$folder/complete" ] || return 0
  rm -rf "$folder"
  into() {
    $pip -qq install --no-compile --only-binary=:all: --target "$folder" --python-version "$1" \
      --platform "manylinux_2_28_$(uname -m)" "${@:2}"
  }
  PIP_CONSTRAINT=/dev/null into "$1" --no-deps torch==2.13.0
  PIP_CONSTRAINT=/dev/null into "$1" --upgrade filelock typing-extensions sympy networkx jinja2 \
    fsspec
  python3 tests/torch/cuda_wheels/without_cuda.py "$folder"
  touch "$folder/complete"
}

# SYSTEM, in namespaces of its own.
try() {
  local root=build/systems/$1 torch=build/systems/torch-$2
  mount --bind /dev "$root/dev"
  mount -t proc proc "$root/proc"
  mkdir -p "$root/opt/torch"
  [ ! -e "$torch/complete" ] || mount --bind "$torch" "$root/opt/torch"
  ulimit -u 400
  chroot --userspec=nobody "$root" bash /tmp/system_tried.sh
}
export -f try

ran=0
mkdir -p build/systems
for system in "${systems[@]}"; do
  root=build/systems/$system
  if [ ! -e "$root/complete" ]; then
    rm -rf --one-file-system "$root"
    fetch "$system" || continue
    touch "$root/complete"
  fi
  python=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  [[ $python == 3.? || $system == i386 ]] || fetch_torch "$python"
  rm -f "$root"/tmp/rondo_ccl-*
  cp "$wheel" tests/abi/system_tried.sh "$root/tmp/"
  timeout -s KILL $seconds unshare --mount --pid --fork --kill-child \
    bash -ec 'try "$@"' try "$system" "$python" ||
    { echo "failed in $system, or took $seconds s"; exit 1; }
  ran=$((ran + 1))
done
[ $ran -gt 0 ] || { echo "no system could be fetched"; exit 1; }
echo "the wheel ran in $ran systems of ${#systems[@]}"
