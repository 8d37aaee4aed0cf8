#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles device_layouts.cu, which has the offsets that Rondo writes, with Rondo's nccl_device.h
# and with NVIDIA's headers of each version, from PyPI (200 MB each, kept in ~/.cache/rondo), and
# compares the PTX of their barrier with the transcript that tests replay (lsa_barrier_steps.inc).
# Needs nvcc. Fails if an offset or a step differs, a version cannot be had, or a planted
# difference is not seen.
#   bash tests/abi/device_headers.sh [VERSION...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
versions=("$@")
[ $# -gt 0 ] || versions=(2.28.9 2.29.2 2.29.3 2.29.7 2.30.3 2.30.7 2.31.2 2.32.3)

compiles() {  # compiles FOLDER [OPTIONS]
  nvcc -arch=sm_90 -std=c++17 -w -I"$1" -I"$root" "${@:2}" -ptx "$here/device_layouts.cu" \
    -o "$work/out.ptx" >"$work/log" 2>&1
}
same() {  # same NAME FOLDER [OPTIONS]
  compiles "${@:2}" || { echo "$1:"; grep -m5 error "$work/log"; exit 1; }
  echo "$1: the same layouts"
}
same Rondo "$root/api" -DOWN
steps() { python3 "$here/lsa_barrier_steps.py" "$version" "$1"; }
for version in "${versions[@]}"; do
  same "NCCL $version" "$("$here/fetch_nccl.sh" "$version")"
  steps "$work/out.ptx"
done
for weaker in s/st.release/st.relaxed/ s/ld.acquire/ld.relaxed/ /fence/d; do
  sed "$weaker" "$work/out.ptx" >"$work/weaker.ptx"
  if ! cmp -s "$work/out.ptx" "$work/weaker.ptx" && steps "$work/weaker.ptx" >"$work/log"; then
    echo "a barrier without an order was not seen: $weaker"
    exit 1
  fi
done
if compiles "$root/api" -DOWN -DPLANTED=8; then
  echo "a wrong offset was not seen"
  exit 1
fi
