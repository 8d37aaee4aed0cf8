#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares Rondo over verbs with ib_write_bw and ib_write_lat, and two rails with one, on soft-RoCE
# in the guest of tests/rdma. Processors are emulated, so only ratios are meaningful.
#   bash bench/rdma_compare.sh [--rounds 5] [--budget 4]
# Installs what it needs (apt), builds, prints the ratios and writes them to build/compare/rdma.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
.ci/install.sh --tests
.ci/install.sh --compare
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 PYTHONDONTWRITEBYTECODE=1
cmake --preset dev >/dev/null
cmake --build --preset dev --target rondo_contestant net_slot_stream | tail -n 1
mkdir -p build/compare
exec tests/rdma/guest.sh --wires 2 --limit 1800 --share build/compare \
  --keep PYTHONDONTWRITEBYTECODE -- /usr/bin/python3 bench/compare/rdma_compare.py \
  --commit "$(git describe --always --dirty)" --out build/compare/rdma.txt "$@"
