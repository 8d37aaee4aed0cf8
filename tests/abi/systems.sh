#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The released wheel in root file systems of other distributions, made below build/systems.
#   tests/abi/systems.sh           all of them; those that cannot be fetched are named
#   tests/abi/systems.sh trixie    some
# Where Python is older than 3.10 the wheel's command and libraries run without it. As root.
set -euo pipefail
cd "$(dirname "$0")/../.."
systems=("$@")
[ $# -gt 0 ] || systems=(bullseye bookworm trixie jammy noble)
.ci/install.sh --deb
wheels=(build/wheels/rondo_ccl-*manylinux_2_28_"$(uname -m)".whl)
[ -e "${wheels[0]}" ] || .ci/wheel.sh --release
wheels=(build/wheels/rondo_ccl-*manylinux_2_28_"$(uname -m)".whl)

# SYSTEM: fails after a line if its packages cannot be had.
fetch() {
  local mirror=http://deb.debian.org/debian include=python3,python3-venv,unzip log
  case $1 in jammy | noble) mirror=http://archive.ubuntu.com/ubuntu ;; esac
  log=build/systems/$1.log
  debootstrap --variant=minbase --include=$include,ca-certificates "$1" "build/systems/$1" \
    $mirror >"$log" 2>&1 ||
    { echo "not run: $1: $(grep -m 1 '^E: ' "$log" || tail -n 1 "$log")"; return 1; }
}

mounted=
trap 'for folder in $mounted; do umount "$folder"; done' EXIT
ran=0
mkdir -p build/systems
for system in "${systems[@]}"; do
  root=build/systems/$system
  if [ ! -e "$root/complete" ]; then
    rm -rf --one-file-system "$root"
    fetch "$system" || continue
    touch "$root/complete"
  fi
  for folder in proc dev; do
    mount --bind /$folder "$root/$folder"
    mounted="$root/$folder $mounted"
  done
  cp "${wheels[0]}" tests/abi/system_tried.sh "$root/tmp/"
  chroot "$root" bash /tmp/system_tried.sh || { echo "failed in $system"; exit 1; }
  ran=$((ran + 1))
done
[ $ran -gt 0 ] || { echo "no system could be fetched"; exit 1; }
echo "the wheel ran in $ran systems of ${#systems[@]}"
