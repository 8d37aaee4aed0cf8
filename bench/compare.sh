#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares Rondo with Open MPI, MPICH, Intel MPI, oneCCL, DeepSpeed's shared-memory all-reduce and
# loops without a library, in turns in one run.
#   bash bench/compare.sh --quick                  few sizes and rounds, a minute or two; of those
#                                                  from PyPI what an earlier run has installed
#   bash bench/compare.sh --real                   late ranks, cold caches, a busy loop a core, each
#                                                  rank where its launcher puts it
#   bash bench/compare.sh [--condition row,single,real] [--ranks 2,4,8]
#                         [--operations all_reduce,...] [--sizes 4,1048576] [--rounds 11]
#                         [--minutes 45] [--no-facts] [--append] [--busy]
# --condition: row (calls in a row, the default), single (one call at a time), real, busy (row
# beside busy loops): bench/compare/conditions.py. --real and --busy are short for one.
# --minutes: everything that is asked for within that time. MPI on more ranks than cores takes
# seconds per call; such measurements are cut first, then rounds, and the table lists what was cut.
# Installs what it needs (apt, and PyPI by bench/compare/rivals.sh), builds, prints the tables and a
# verdict for every target, and writes results.txt, results.csv, results.json and all_reduce.png to
# build/compare, build/compare-real or build/compare-busy (--out).
set -euo pipefail
cd "$(dirname "$0")/.."
.ci/install.sh --compare
cmake --preset release >/dev/null
cmake --build --preset release --target rondo rondo_contestant own_loops | tail -n 1
case " $* " in
  *" --quick "*) bench/compare/rivals.sh --installed ;;
  *) bench/compare/rivals.sh ;;
esac
export PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 bench/compare/compare.py "$@"
