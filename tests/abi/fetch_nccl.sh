#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gets NVIDIA's headers and libnccl.so.2 of one version from PyPI's nvidia-nccl-cu13 wheel, to
# compare with ours.
#   dir=$(tests/abi/fetch_nccl.sh 2.32.3)
# Prints the folder that holds them. If they are unavailable, prints the reason on stderr and
# exits 1. They are kept in $RONDO_CACHE (default ~/.cache/rondo), never in the source tree.
set -euo pipefail
version=$1
cache=${RONDO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rondo}
dir=$cache/nccl-$version
if_there() {
  [ -f "$dir/nccl.h" ] && [ -f "$dir/nccl_device.h" ] && [ -f "$dir/libnccl.so.2" ] || return 0
  echo "$dir"
  exit 0
}
if_there
mkdir -p "$dir"
exec 9>"$cache/nccl.lock"
flock 9
if_there  # another test that ran at the same time has got them
work=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
if ! timeout "${RONDO_FETCH_SECONDS:-240}" python3 -m pip download --quiet --no-deps \
    --only-binary=:all: --disable-pip-version-check --dest "$work" "nvidia-nccl-cu13==$version" \
    >"$work/log" 2>&1; then
  echo "no nvidia-nccl-cu13 $version: pip said: $(tail -n 1 "$work/log")" >&2
  exit 1
fi
python3 - "$work"/nvidia_nccl_cu13-*.whl "$dir" <<'PY'
import os, shutil, sys, zipfile
wheel, folder = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    members = [name for name in archive.namelist() if name.startswith("nvidia/nccl/include/nccl")]
    for member in ["nvidia/nccl/lib/libnccl.so.2", *sorted(members, reverse=True)]:  # nccl.h last
        path = os.path.join(folder, member.split("/", 3)[3])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with archive.open(member) as source, open(path + ".part", "wb") as target:
            shutil.copyfileobj(source, target)
        os.rename(path + ".part", path)  # another test must find it whole
PY
echo "$dir"
