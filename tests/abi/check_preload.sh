#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_preload.sh <our libnccl.so.2>: a program linked to NVIDIA's library, and one that opens it
# by name, run on ours. Exits 77 (skipped), with the reason, if NVIDIA's wheel is unavailable.
set -euo pipefail
cd "$(dirname "$0")"
ours=$1
if ! dir=$(./fetch_nccl.sh 2.32.3 2>&1); then
  echo "skipped: $dir"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$dir
${CC:-cc} -std=gnu11 -O1 -Wall -I../../api client.c -o "$work/client" "$dir/libnccl.so.2" -lm
readelf -d "$work/client" | grep 'libnccl.so.2' >/dev/null
LD_PRELOAD=$ours "$work/client" 3
LD_PRELOAD=$ours python3 check_dlopen.py
