#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_exports.sh <library> <SONAME>: the exported symbols are NCCL's interface (nccl_exports.txt:
# the union of 2.28.9 and 2.32.3, each as a weak ncclX and a strong pncclX) plus rondo*, without
# symbol versions, and nothing else. Where libnccl.so.2 is jumps into librondo.so.1 beside it, both
# export the same names, and librondo.so.1 the table of their addresses and that of
# librondo-watch.so.
set -euo pipefail
library=$1 soname=$2
here=$(cd "$(dirname "$0")" && pwd)
failures=0
listed=$({
  sed 's/^/W /; p; s/^W /T p/' "$here/nccl_exports.txt"
  echo T ncclResetDebugInitInternal
} | sort)
tables='^D rondo_(entry_points_[0-9a-f]+|watch_tables_7)$'
complain() { echo "$(basename "$library"): $*"; failures=$((failures + 1)); }

exported=$(nm -D --defined-only "$library" | awk '{print $2, $3}' | sort -k2)
missing=$(comm -23 <(echo "$listed") <(sort <<<"$exported"))
[ -z "$missing" ] || complain "missing, or of another kind (W weak, T strong):" $missing
extra=$(comm -13 <(echo "$listed") <(sort <<<"$exported") |
  grep -Ev "^T rondo|$tables" || true)
[ -z "$extra" ] || complain "exports what is no interface:" $extra
grep -q '^T rondoGetVersion$' <<<"$exported" || complain "rondoGetVersion is missing"
grep -q '@' <<<"$exported" && complain "has symbol versions"
readelf -V "$library" | grep 'Version definition' >/dev/null && complain "defines symbol versions"
readelf -d "$library" | grep "Library soname: \[$soname\]" >/dev/null ||
  complain "SONAME is not $soname"
unwanted='libcudart|libcuda|libibverbs|libuc[pst]|libgtest'
allowed='^$'
if [ "$soname" = libnccl.so.2 ] && readelf -d "$library" | grep -q 'NEEDED.*librondo'; then
  allowed='^rondo_entry_points_'
  code=$(readelf -d "$library" | sed -n 's/.*RUNPATH.*\[$ORIGIN\([^]:]*\).*/\1/p')
  code=$(dirname "$library")$code/librondo.so.1
  diff <(nm -D --defined-only "$code" | awk '{print $2, $3}' | grep -Ev "$tables" | sort) \
    <(sort <<<"$exported") || complain "exports other names than $code"
  # By a symbol they would be the jumps again.
  readelf -rW "$code" | grep -E ' (p?nccl[A-Z]|rondo[A-Z_])' &&
    complain "$code does not find its own functions without their names"
else
  unwanted+='|librondo'
fi
readelf -d "$library" | grep -Eq "NEEDED.*($unwanted)" &&
  complain "needs a library that it must not"
readelf -d "$library" | grep STATIC_TLS >/dev/null &&
  complain "has static thread-local storage: dlopen() can fail"
undefined=$(nm -D --undefined-only "$library" | awk '{print $2}' | grep -E 'rondo|nccl' |
  grep -Ev "$allowed" || true)
[ -z "$undefined" ] || complain "undefined symbols:" $undefined

# Checks the list itself, if NVIDIA's libraries are available.
for version in 2.28.9 2.32.3; do
  dir=${RONDO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rondo}/nccl-$version
  [ -f "$dir/libnccl.so.2" ] || continue
  unlisted=$(comm -13 <(echo "$listed") \
    <(nm -D --defined-only "$dir/libnccl.so.2" | awk '{print $2, $3}' | sort))
  [ -z "$unlisted" ] || complain "nccl_exports.txt lacks names of $version:" $unlisted
done
echo "$(basename "$library"): $(wc -l <<<"$exported") exports, $failures complaints"
exit $((failures > 0))
