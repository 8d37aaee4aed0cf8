#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_release.sh FOLDER: .ci/release.sh in a copy of the commit below FOLDER, with its own key and
# files of a line each in place of wheels: what it refuses, and that its signature holds.
set -euo pipefail
cd "$(dirname "$0")/../.."
top=$PWD
rm -rf "$1"
mkdir -p "$1/built"
cd "$1"
folder=$PWD
git clone -q "$top" tree
cd tree
git config user.name release
git config user.email release@localhost
minisign -G -f -W -p "$folder/key.pub" -s "$folder/key" >/dev/null </dev/null

# TEXT ARGUMENTS...: it refuses in one line that holds the text.
refused() {
  local text=$1 code=0 said
  shift
  said=$(.ci/release.sh "$@" 2>&1 >/dev/null) || code=$?
  { [ $code = 2 ] && [ "$(wc -l <<<"$said")" = 1 ] && [[ $said == *"$text"* ]]; } ||
    { echo "not refused with '$text': $code, $said"; exit 1; }
}
all=(9.8.7 --key "$folder/key" --from "$folder/built")
refused "name the version" 9.8 --key "$folder/key"
refused "no readable file" 9.8.7 --key "$folder/none"
refused "CMakeLists.txt has no line" "${all[@]}"
old=$(sed -n 's/^project(rondo VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
for file in CMakeLists.txt .ci/packaging/recipe/recipe.yaml .ci/packaging/spack/package.py; do
  sed -i "s/\(VERSION \|version: \"\|version(\"\)${old//./\\.}/\19.8.7/" $file
  refused "not committed" "${all[@]}"
  git commit -q -am "a number"
done
refused "no '## 9.8.7 - DATE'" "${all[@]}"
sed -i 's/^## Unreleased$/## Unreleased\n\n- A change.\n\n## 9.8.7 - 2026-12-01/' docs/CHANGELOG.md
git commit -q -am "a heading"
refused "still has 1 changes" "${all[@]}"
sed -i '/^- A change\.$/d' docs/CHANGELOG.md
git commit -q -am "no change left"
for machine in x86_64 aarch64; do
  : >"$folder/built/rondo_ccl-9.8.7-cp310-abi3-manylinux_2_28_$machine.whl"
done
echo archive >"$folder/built/rondo_ccl-9.8.7.tar.gz"
rm "$folder"/built/*aarch64*
refused "there is no rondo_ccl-9.8.7-cp310-abi3-manylinux_2_28_aarch64.whl" "${all[@]}"
: >"$folder/built/rondo_ccl-9.8.7-cp310-abi3-manylinux_2_28_aarch64.whl"
git tag v9.8.7
refused "there is a tag" "${all[@]}"
git tag -d v9.8.7 >/dev/null

said=$(.ci/release.sh "${all[@]}")
[ -z "$(git status --porcelain)" ] || { echo "it changed the tree"; exit 1; }
cd build/release-9.8.7
[ "$(ls | wc -l)" = 5 ] || { ls; exit 1; }
sum=$(sha256sum <"$folder/built/rondo_ccl-9.8.7.tar.gz" | cut -d ' ' -f 1)
[ "$(grep -c "sha256[:=].*$sum" <<<"$said")" = 2 ] || { echo "no sum is named: $said"; exit 1; }
sha256sum -c --quiet SHA256SUMS
minisign -V -q -p "$folder/key.pub" -m SHA256SUMS
echo >>SHA256SUMS
! minisign -V -q -p "$folder/key.pub" -m SHA256SUMS 2>/dev/null ||
  { echo "a changed file is still signed"; exit 1; }
echo "release.sh refuses what it must, and signs"
