#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the layouts of NCCL's device API that Rondo reads and writes with NVIDIA's headers of
# each version, from PyPI (200 MB each, kept in ~/.cache/rondo). Needs nvcc. Fails if an offset
# differs, a version cannot be had, or a planted wrong offset is not seen.
#   bash tests/abi/device_headers.sh [VERSION...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
versions=("$@")
[ $# -gt 0 ] || versions=(2.28.9 2.29.2 2.29.3 2.29.7 2.30.3 2.30.7 2.31.2 2.32.3)

compiles() {  # compiles FOLDER TREE
  nvcc -arch=sm_90 -std=c++17 -w -I"$1" -I"$2" -c "$here/device_layouts.cu" -o "$work/out.o" \
    >"$work/log" 2>&1
}
for version in "${versions[@]}"; do
  dir=$("$here/fetch_nccl.sh" "$version")
  compiles "$dir" "$root" || { echo "NCCL $version:"; grep -m5 error "$work/log"; exit 1; }
  echo "NCCL $version: the layouts are those of NVIDIA's headers"
done
# The comparison can fail.
mkdir -p "$work/tree/api" "$work/tree/collectives"
ln -s "$root/collectives/context" "$work/tree/collectives/context"
sed 's/{23100, 120, 16, 248, 8, 32/{23100, 120, 16, 248, 8, 24/' \
  "$root/api/device_layout_table.h" >"$work/tree/api/device_layout_table.h"
! cmp -s "$root/api/device_layout_table.h" "$work/tree/api/device_layout_table.h"
if compiles "$("$here/fetch_nccl.sh" 2.32.3)" "$work/tree"; then
  echo "a wrong offset was not seen"
  exit 1
fi
