#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds Debian packages into build/debs: librondo1, librondo-dev, rondo-tools.
#   .ci/deb.sh           the packages for host memory
#   .ci/deb.sh --cuda    and librondo-cuda1, libnccl.so.2 for GPUs (needs nvcc 13)
#   .ci/deb.sh --try     and installs, uses and removes them in a new Debian system below build/
# Two builds of one commit give the same bytes. CMAKE_ARGS holds more options for CMake.
set -euo pipefail
cd "$(dirname "$0")/.."
cuda= try=
for what in "$@"; do
  case $what in
    --cuda) cuda=1 ;;
    --try) try=1 ;;
    *) echo "deb.sh: '$what' is not known: --cuda, --try" >&2; exit 2 ;;
  esac
done
if [ -n "$cuda" ] && ! command -v nvcc >/dev/null; then
  echo "deb.sh: --cuda needs nvcc 13 in PATH" >&2
  exit 2
fi
.ci/install.sh --deb
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
libdir=lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
out=$PWD/build/debs
rm -rf "$out"

# FOLDER TARGETS [options of CMake]: packages of one build. TARGETS: what is installed.
pack() {
  local build=build/$1 targets=$2
  # Headers lie in a folder of their own: nccl.h may come from another package.
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON \
    -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR="$libdir" \
    -DCMAKE_INSTALL_INCLUDEDIR=include/rondo -DCMAKE_SKIP_INSTALL_ALL_DEPENDENCY=ON \
    "${@:3}" ${CMAKE_ARGS:-} >/dev/null
  cmake --build "$build" --target $targets | tail -n 1
  (cd "$build" && cpack -G DEB -B "$out" >cpack.log) || { cat "$build/cpack.log"; exit 1; }
}
pack deb "rondo_shared nccl_shared rondo_audit rondo_watch rondo" \
  -DRONDO_NCCL_LIBDIR="$libdir/rondo"
if [ -n "$cuda" ]; then
  pack deb-cuda "nccl_shared rondo_audit" -DRONDO_GPU=cuda -DRONDO_NCCL_LIBDIR="$libdir/rondo-cuda"
fi
rm -rf "$out/_CPack_Packages"
ls -l "$out"

try_in_root() {
  local root=$PWD/build/deb-root
  umount "$root/proc" 2>/dev/null || true
  rm -rf --one-file-system "$root"
  debootstrap --variant=minbase bookworm "$root" >build/debootstrap.log ||
    { tail -n 5 build/debootstrap.log; exit 1; }
  mount -t proc proc "$root/proc"
  trap "umount '$root/proc'" EXIT
  cp "$out"/*.deb "$root/tmp/"
  cp tests/abi/{deb_tried.sh,cuda_library.c,check_exports.sh,nccl_exports.txt} "$root/tmp/"
  cp /etc/apt/sources.list "$root/etc/apt/sources.list" 2>/dev/null || true
  cp -r /etc/apt/sources.list.d /etc/apt/apt.conf.d "$root/etc/apt/" 2>/dev/null || true
  cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
  chroot "$root" bash /tmp/deb_tried.sh
}
[ -z "$try" ] || try_in_root
