#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a libcrypto.a of OpenSSL with little but what Rondo calls, SHA-256 and AES-256-GCM, from
# Debian's source package: what is linked with it is 2.5 MB smaller than with Debian's libcrypto.a.
#   .ci/small_openssl.sh CONFIGURATION FOLDER      linux-x86_64, for example; CC: the compiler
# makes FOLDER/include, FOLDER/lib/libcrypto.a, FOLDER/LICENSE.txt and FOLDER/version. Does nothing
# if FOLDER is complete. Takes a minute on two cores.
set -euo pipefail
[ $# = 2 ] || { echo "usage: small_openssl.sh CONFIGURATION FOLDER" >&2; exit 2; }
configuration=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
[ ! -e "$folder/complete" ] || exit 0
rm -rf "${folder:?}"/*
work=$folder/work apt=$folder/work/apt
mkdir -p "$apt"/{lists/partial,archives/partial}
. /etc/os-release
cat >"$apt/sources.list" <<LIST
deb-src http://deb.debian.org/debian $VERSION_CODENAME main
deb-src http://deb.debian.org/debian-security $VERSION_CODENAME-security main
LIST
apt_of_sources() {
  "$1" -qq -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt" -o APT::Sandbox::User= "${@:2}"
}

echo "fetching the source of openssl from Debian (15 MB)"
# The newest version that the mirror has: an index can be ahead of its mirror.
cd "$work"
apt_of_sources apt-get update
version=
for one in $(apt_of_sources apt-cache showsrc openssl | sed -n 's/^Version: //p' | sort -Vr); do
  if apt_of_sources apt-get source "openssl=$one" >source.log 2>&1; then
    version=$one
    break
  fi
done
[ -n "$version" ] || { echo "small_openssl.sh: no source of openssl: $(tail -n 1 source.log)" >&2
  exit 1; }
source=$(find "$work" -maxdepth 1 -type d -name 'openssl-*')

# What is left out beside protocols and other algorithms: texts of errors, settings from files,
# modules that are loaded.
without=(shared tests module dso engine legacy async autoload-config comp cms cmp ct dgram ssl tls
         dtls ec dh dsa err filenames ocsp rfc3779 sock srp srtp ts ui-console aria bf blake2
         camellia cast chacha cmac des gost idea md4 mdc2 multiblock ocb poly1305 rc2 rc4 rmd160
         scrypt seed siphash siv sm2 sm3 sm4 whirlpool psk)
mkdir "$work/build"
cd "$work/build"
compiler=${CC:-cc}
tools=  # of a cross compiler: aarch64-linux-gnu-
[[ $compiler != *-linux-gnu-* ]] || tools=${compiler%gcc*}
! command -v ccache >/dev/null || compiler="ccache $compiler"
"$source/Configure" "$configuration" --prefix=/nowhere --openssldir=/nowhere \
  "${without[@]/#/no-}" -Os -ffunction-sections -fdata-sections -fPIC CC="$compiler" \
  AR="${tools}ar" RANLIB="${tools}ranlib" >configure.log
make -s -j"${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" build_generated libcrypto.a >make.log 2>&1 ||
  { tail -n 20 make.log >&2; exit 1; }

mkdir -p "$folder/lib" "$folder/include"
cp libcrypto.a "$folder/lib/"
cp -r "$source/include/openssl" include/openssl "$folder/include/"
cp "$source/LICENSE.txt" "$folder/"
echo "$version" >"$folder/version"
rm -rf "$work"
touch "$folder/complete"
