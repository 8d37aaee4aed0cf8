#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_install.sh <build folder>: cmake --install installs all that a program needs, with
# find_package and with pkg-config.
set -euo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >/dev/null
libdir=$(dirname "$(find "$work/prefix" -name librondo.so.1)")
for file in "$libdir/libnccl.so.2" "$libdir/libnccl.so" "$libdir/librondo.so" \
    "$libdir/pkgconfig/rondo.pc" \
    "$work"/prefix/include/{nccl,nccl_device,nccl_device_code,nccl_device_copies}.h \
    "$work"/prefix/include/{nccl_device_lsa,rondo}.h \
    "$work/prefix/bin/all_reduce_perf" "$work/prefix/bin/sendrecv_perf" \
    "$work/prefix/share/rondo/examples/hello_allreduce.c" \
    "$work/prefix/share/rondo/topologies/dgx-h100.xml" "$work/prefix/share/man/man1/rondo.1" \
    "$work/prefix/share/man/man1/rondo-ps.1" \
    "$work/prefix/share/bash-completion/completions/rondo" \
    "$work/prefix/share/fish/vendor_completions.d/rondo.fish" \
    "$work/prefix/share/zsh/vendor-completions/_rondo"; do
  [ -e "$file" ] || { echo "not installed: ${file#"$work"/}"; exit 1; }
done

"$work/prefix/bin/rondo" topo --topo dgx-h100 >/dev/null

# Data of glibc that has two names must not be copied into a program: glibc writes to the original.
copied=$(readelf -rW "$work/prefix/bin/rondo" |
  awk '/_COPY/ && $5 !~ /^(stdin|stdout|stderr|__libc_single_threaded|_Z.*)@/ {print $5}')
[ -z "$copied" ] || { echo "the command has a copy of $copied"; exit 1; }

mkdir "$work/consumer"
cat >"$work/consumer/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C)
find_package(rondo 0.1 REQUIRED)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE rondo::rondo)
CMAKE
cat >"$work/consumer/consumer.c" <<'C'
#include <rondo.h>
#include <stdio.h>
int main(void) {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return 1;
  printf("rondo %s as NCCL %d\n", rondoGetVersion(), version);
  return 0;
}
C
cmake -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/consumer/build" >/dev/null
"$work/consumer/build/consumer"

export PKG_CONFIG_PATH=$libdir/pkgconfig
${CC:-cc} "$work/consumer/consumer.c" $(pkg-config --cflags --libs rondo) -Wl,-rpath,"$libdir" \
  -o "$work/by_pkg_config"
"$work/by_pkg_config"
