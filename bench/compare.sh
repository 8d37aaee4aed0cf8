#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares Rondo with Open MPI, MPICH, Intel MPI, oneCCL, DeepSpeed's shared-memory all-reduce and
# loops without a library, in turns in one run.
#   bash bench/compare.sh --quick                  few sizes and rounds, a minute or two; of Intel's
#                                                  and DeepSpeed's what an earlier run has installed
#   bash bench/compare.sh [--ranks 2,4,8] [--operations all_reduce,...] [--sizes 4,1048576]
#                         [--rounds 11] [--minutes 45] [--no-facts] [--append] [--busy]
# --minutes: all operations of all MPIs at 2, 4 and 8 ranks within that time. MPI on more ranks than
# cores takes seconds per call; such measurements are cut first, then rounds, and the table lists
# what was cut.
# --busy: beside one busy loop a core, without the facts, to build/compare-busy.
# Installs what it needs (apt, and PyPI by bench/compare/rivals.sh), builds, prints one table and a
# verdict for every target, and writes results.txt, results.csv, results.json and all_reduce.png to
# build/compare (--out).
set -euo pipefail
cd "$(dirname "$0")/.."
.ci/install.sh --compare
cmake --preset release >/dev/null
cmake --build --preset release --target rondo rondo_contestant own_loops | tail -n 1
mkdir -p build/compare
for mpi in openmpi mpich; do
  program=build/compare/contestant.$mpi
  source=bench/compare/mpi_contestant.cc
  if [ $source -nt "$program" ] || [ bench/compare/loop.h -nt "$program" ]; then
    "mpicxx.$mpi" -std=c++20 -O2 -I. $source -o "$program"
  fi
done
case " $* " in
  *" --quick "*) bench/compare/rivals.sh --installed ;;
  *) bench/compare/rivals.sh ;;
esac
export PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 bench/compare/compare.py "$@"
