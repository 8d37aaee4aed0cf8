#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures all-reduces between hosts over TCP: Rondo, Open MPI, and Gloo if a Python with torch is
# given, in turns in one run. Two hosts of one rank are also compared with the bare network (iperf3
# and a ping-pong, or ucx_perftest for Rondo over UCX), and with calls that move no data. Hosts are
# network namespaces.
#   bash bench/net_compare.sh --quick
#   bash bench/net_compare.sh [--hosts 2,4] [--ranks-per-host 1] [--sizes 4,1048576] [--rounds 9]
#                             [--python build/torch-venv/bin/python] [--contestants rondo,openmpi]
#                             [--gbit 10,25]   the rate of each host's network
#                             [--busy]         beside one busy loop a core
#   bash bench/net_compare.sh --hosts 2 --contestants rondo,rondo_ucx
# Needs root. Installs what it needs (apt), builds, prints a table and writes it to
# build/compare/net.txt (--out).
set -euo pipefail
cd "$(dirname "$0")/.."
.ci/install.sh --compare
cmake --preset release >/dev/null
cmake --build --preset release --target rondo_contestant tcp_contestant | tail -n 1
bench/compare/rivals.sh --debian
export PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 bench/compare/net_compare.py "$@"
