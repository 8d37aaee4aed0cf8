#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the quality of the planner's choices: forces every algorithm that can run a call of host
# memory in turn, and compares the planner's choice with the fastest of them.
#   bash bench/plan_quality.sh [--tune FILE] [--ranks 2x1,4x1,8x1,2x2,4x2] [--sizes 4,65536]
#                              [--operations all_reduce,...] [--rounds 5] [--out build/plan_quality]
# NxH: N ranks on H pretended hosts, connected over loopback. Without --tune the planner has its
# priors. Builds, and writes a table and JSON to --out. Takes about ten minutes on an idle machine.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release --target rondo rondo_contestant | tail -n 1
export PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 bench/compare/plan_quality.py "$@"
