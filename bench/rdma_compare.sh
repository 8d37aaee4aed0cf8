#!/usr/bin/env bash
# Measures what Rondo's links over InfiniBand's verbs make of two soft-RoCE devices beside what
# perftest makes of them, in turns, in a guest (tests/rdma/guest.sh). The guest is emulated: what is
# printed are ratios, which say what Rondo adds to the device, never speeds.
#   bash bench/rdma_compare.sh [--rounds 5]
# Installs what it needs (apt), builds, and writes the table to build/compare/rdma.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=5
[ "${1:-}" != --rounds ] || rounds=$2
.ci/install.sh --compare
cmake --preset release >/dev/null
cmake --build --preset release --target rondo | tail -n 1
mkdir -p build/compare
{
  echo "commit $(git describe --always --dirty), $(date +%F), an emulated guest of 2 processors"
  tests/rdma/guest.sh --wires 2 --limit 1500 -- bash bench/compare/rdma_guest.sh \
    build/release/bin/rondo "$rounds"
} | tee build/compare/rdma.txt
