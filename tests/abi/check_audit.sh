#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_audit.sh <librondo_audit.so>: programs that find NVIDIA's library by an RPATH or a full path
# run on ours. Exits 77 (skipped), with the reason, if NVIDIA's wheel is unavailable.
set -euo pipefail
cd "$(dirname "$0")"
audit=$1
if ! dir=$(./fetch_nccl.sh 2.32.3 2>&1); then
  echo "skipped: $dir"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CC:-cc} -std=gnu11 -O1 -Wall -I../../api client.c -o "$work/client" "$dir/libnccl.so.2" -lm \
  "-Wl,-rpath,$dir"
LD_AUDIT=$audit "$work/client" 3

# By full path: the mapped file shows which library was loaded.
cat >"$work/load.py" <<'PY'
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
version = ctypes.c_int()
assert library.ncclGetVersion(ctypes.byref(version)) == 0
print("ours" if hasattr(library, "rondoGetVersion") else "NVIDIA's", version.value)
PY
[ "$(python3 "$work/load.py" "$dir/libnccl.so.2")" = "NVIDIA's 23203" ]
[ "$(LD_AUDIT=$audit python3 "$work/load.py" "$dir/libnccl.so.2")" = "ours 22809" ]

# A shim without our library beside it reports that and changes nothing.
cp "$audit" "$work/"
LD_AUDIT=$work/$(basename "$audit") python3 "$work/load.py" "$dir/libnccl.so.2" \
  >"$work/out" 2>"$work/err"
grep -q "NVIDIA's 23203" "$work/out"
grep -q 'no libnccl.so.2 beside' "$work/err"
echo "programs that name a path get ours"
