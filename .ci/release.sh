#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the files of a release in build/release-VERSION (docs/internals/release.md): wheels for
# x86-64 and ARM, the source archive, their checksums, and the signature of these.
#   .ci/release.sh 0.2.0 --key FILE    FILE: a secret key of minisign
#   --from FOLDER                      files that are already built
# Changes nothing else, uploads nothing. Exits with 2, after one line, if the tree is not that of
# the version; last it prints the lines of the recipes of .ci/packaging.
set -euo pipefail
cd "$(dirname "$0")/.."
refuse() {
  echo "release.sh: $*" >&2
  exit 2
}
version= key= from=
while [ $# -gt 0 ]; do
  case $1 in
    --key) key=${2:-}; shift ;;
    --from) from=${2:-}; shift ;;
    -*) refuse "'$1' is not known: --key, --from" ;;
    *) version=$1 ;;
  esac
  shift
done
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || refuse "name the version: .ci/release.sh 0.2.0"
[ -r "$key" ] || refuse "--key: '$key' is no readable file; minisign -G makes a key"

# FILE TEXT: the file must hold the line.
must_hold() { grep -qxF -- "$2" "$1" || refuse "$1 has no line '$2'"; }
[ -z "$(git status --porcelain)" ] || refuse "the tree has changes that are not committed"
must_hold CMakeLists.txt "project(rondo VERSION $version LANGUAGES C CXX)"
must_hold .ci/packaging/recipe/recipe.yaml "  version: \"$version\""
must_hold .ci/packaging/spack/package.py "    version(\"$version\")"
grep -q "^## $version - [0-9-]*$" docs/CHANGELOG.md ||
  refuse "docs/CHANGELOG.md has no '## $version - DATE'"
left=$(sed -n '/^## Unreleased/,/^## [0-9]/p' docs/CHANGELOG.md | grep -c '^- ' || true)
[ "$left" = 0 ] || refuse "docs/CHANGELOG.md still has $left changes below 'Unreleased'"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || refuse "there is a tag v$version"
command -v minisign >/dev/null || refuse "there is no minisign: apt-get install minisign"

out=build/release-$version
rm -rf "$out"
mkdir -p "$out"
if [ -n "$from" ]; then
  cp "$from"/*.whl "$from"/*.tar.gz "$out/"
else
  .ci/wheel.sh --release --sdist
  cp build/wheels/* "$out/"
  .ci/wheel.sh --arch aarch64
  cp build/wheels/*.whl "$out/"
fi
for name in "cp310-abi3-manylinux_2_28_x86_64.whl" "cp310-abi3-manylinux_2_28_aarch64.whl"; do
  [ -e "$out/rondo_ccl-$version-$name" ] || refuse "there is no rondo_ccl-$version-$name"
done
sdist=rondo_ccl-$version.tar.gz
[ -e "$out/$sdist" ] || refuse "there is no $sdist"
(cd "$out" && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
minisign -S -s "$key" -m "$out/SHA256SUMS" \
  -t "rondo $version, commit $(git rev-parse HEAD)" >/dev/null
ls -l "$out"
sum=$(sed -n "s/  $sdist$//p" "$out/SHA256SUMS")
cat <<END
.ci/packaging/recipe/recipe.yaml, for conda-forge, in place of the path:
  url: https://pypi.org/packages/source/r/rondo-ccl/rondo_ccl-\${{ version }}.tar.gz
  sha256: $sum
.ci/packaging/spack/package.py, for Spack:
    version("$version", sha256="$sum")
then: git tag -s v$version
END
