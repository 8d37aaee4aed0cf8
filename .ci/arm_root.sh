#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a folder with the libraries and headers for ARM that a cross build of Rondo needs, from
# Debian's packages; installs nothing for ARM on this machine.
#   .ci/arm_root.sh FOLDER
# Does nothing if FOLDER is complete.
set -euo pipefail
[ $# = 1 ] || { echo "usage: arm_root.sh FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
[ ! -e "$folder/complete" ] || exit 0
packages=(libhwloc-dev libhwy-dev libfmt-dev libcli11-dev libpugixml-dev nlohmann-json3-dev
          libboost1.74-dev libboost-context1.74-dev libssl-dev libibverbs-dev libucx-dev
          libpython3.11-dev libgtest-dev libgmock-dev libc6 libgcc-s1 libstdc++6 libpugixml1v5
          libhwloc15 libudev1 libhwy1 libibverbs1 libucx0)
apt="$folder/apt"
mkdir -p "$apt"/{lists/partial,archives/partial,debs}
apt_of_arm() {
  apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$apt" \
    -o Dir::State::lists="$apt/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$apt" \
    -o Debug::NoLocking=1 -o APT::Sandbox::User=root "$@"
}
echo "fetching Debian's packages for ARM: ${packages[*]}"
apt_of_arm update
(cd "$apt/debs" && apt_of_arm download "${packages[@]}")
for package in "$apt"/debs/*.deb; do dpkg-deb -x "$package" "$folder"; done
rm -rf "$apt"
# Absolute links of packages point into the folder.
while read -r link; do
  ln -snf "$folder$(readlink "$link")" "$link"
done < <(find "$folder" -type l -lname '/*')
touch "$folder/complete"
