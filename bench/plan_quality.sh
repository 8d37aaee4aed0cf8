#!/usr/bin/env bash
# How good the planner's choices are: every algorithm that can run a call of host memory is forced
# in turn, and what the planner would take is set beside the fastest of them.
#   bash bench/plan_quality.sh [--tune FILE] [--ranks 2x1,4x1,8x1,2x2,4x2] [--sizes 4,65536]
#                              [--operations all_reduce,...] [--rounds 5] [--out build/plan_quality]
# NxH: N ranks on H hosts, which are pretended and talk over loopback. Without --tune the planner
# has its priors. Builds, and writes a table and JSON to --out. About ten minutes if it is idle.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release --target rondo rondo_contestant | tail -n 1
export PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 bench/compare/plan_quality.py "$@"
