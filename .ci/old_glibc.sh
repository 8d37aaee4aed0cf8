#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes what gcc links with for programs that run from an old glibc on: that glibc's symbols and
# their versions, without code, and its start of programs. They come from Zig, whose PyPI package
# knows them for every version and processor (ziglang, 90 MB, into build/zig-venv).
#   .ci/old_glibc.sh x86_64|aarch64 2.28 FOLDER     then gcc -B FOLDER/ links with it
# Does nothing if FOLDER is complete. Headers stay the system's: a function that only they know is
# an undefined symbol when linked.
set -euo pipefail
[ $# = 3 ] || { echo "usage: old_glibc.sh x86_64|aarch64 VERSION FOLDER" >&2; exit 2; }
processor=$1 version=$2
mkdir -p "$3"
folder=$(cd "$3" && pwd)
cd "$(dirname "$0")/.."
[ ! -e "$folder/complete" ] || exit 0

venv=build/zig-venv
[ -x $venv/bin/pip ] || "${PYTHON:-python3}" -m venv $venv
echo "fetching ziglang from PyPI (90 MB): the symbols of glibc $version"
$venv/bin/pip install -q ziglang==0.17.1
cache=$folder/cache
rm -rf "$cache"
echo 'int main(void) { return 0; }' >"$folder/empty.c"
target() {
  ZIG_GLOBAL_CACHE_DIR=$cache ZIG_LOCAL_CACHE_DIR=$cache $venv/bin/python -m ziglang cc \
    -target "$processor-linux-gnu.$version" "$@"
}
# Linking any program makes them in the cache.
target -pie -fPIE "$folder/empty.c" -o "$folder/empty" -lpthread -ldl -lrt -lm
for name in libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libld.so.2 \
  libc_nonshared.a Scrt1.o; do
  found=$(find "$cache" -name $name)
  [ -n "$found" ] || { echo "old_glibc.sh: this ziglang makes no $name" >&2; exit 1; }
  cp "$found" "$folder/$name"
done
target -O2 -c -fPIC .ci/glibc_absent.c -o "$folder/absent.o"
ar rcs "$folder/libc_absent.a" "$folder/absent.o"
needed="libpthread.so.0 libdl.so.2 librt.so.1 libld.so.2"
echo "INPUT(libc.so.6 libc_nonshared.a libc_absent.a AS_NEEDED($needed))" >"$folder/libc.so"
echo "INPUT(libm.so.6)" >"$folder/libm.so"
rm -rf "$cache" "$folder"/{empty,empty.c,absent.o}
touch "$folder/complete"
