#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes, splits, uses, kills and destroys communicators at random, under load and on a bad network;
# what the processes hold must stay flat. Builds what it needs. See tests/soak/soak.py.
#   bash tests/soak.sh [MINUTES] [options of soak.py]     5 minutes; hours by hand
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${1:-5}
[ $# -eq 0 ] || shift
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
cmake --preset dev >/dev/null
cmake --build --preset dev --target soak_rank | tail -n 1
exec python3 tests/soak/soak.py build/dev/bin/soak_rank --minutes "$minutes" "$@"
