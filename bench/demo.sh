#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Rondo in one command: installs what is missing, builds the wheel and installs it (in
# build/demo-venv), measures all-reduce on 4 ranks, and trains a character model on this machine's
# licence texts with 1, 2 and 4 ranks.
#   bash bench/demo.sh [STEPS]     training steps a run (default 60)
# Prints the commands, and how long each step took. Exits with 2, after one line, if something is
# missing.
set -euo pipefail
cd "$(dirname "$0")/.."
steps=${1:-60}
venv=build/demo-venv trainer=build/demo/train_text
needed_mb=400  # of objects, libraries, programs and environments

refuse() {
  echo "demo.sh: $*" >&2
  exit 2
}
free_mb() { df -Pm "$1" | awk 'NR == 2 {print $4}'; }
check_space() {
  local folder
  for folder in . "${TMPDIR:-/tmp}"; do
    [ "$(free_mb "$folder")" -ge "$1" ] ||
      refuse "$(free_mb "$folder") MB are free in $(realpath "$folder"), and $1 MB are needed:" \
        "free some space and run this again"
  done
}

step=0 times=
begin() {
  step=$((step + 1)) title=$1 began=$SECONDS
  echo "== $step/5 $1: $2"
}
finish() {
  local took=$((SECONDS - began))
  times+="${times:+, }$title $took s"
  printf -- '-- %s took %d s\n\n' "$title" "$took"
}

# COMMAND...: shows it, then runs it.
show() {
  echo "\$ $*"
  "$@"
}
# COMMAND...: its output is shown if it fails.
quietly() {
  echo "\$ $*"
  "$@" >"$logs/quiet" 2>&1 && return
  tail -n 40 "$logs/quiet" >&2
  check_space 20
  refuse "'$1' failed; its output above says why"
}

[[ $steps =~ ^[1-9][0-9]*$ ]] || refuse "STEPS is a whole number from 1, not '$steps'"
check_space "$needed_mb"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
trap 'echo; echo "demo.sh: interrupted" >&2; exit 130' INT

begin packages "installs what a build needs, where it is missing"
.ci/install.sh
.ci/install.sh --torch
finish

begin compiling "the wheel, into build/wheels"
compiler=${CXX:-c++}
command -v "${compiler%% *}" >/dev/null ||
  refuse "there is no C++ compiler '$compiler': install g++, or let CXX name one that is there"
quietly .ci/wheel.sh
finish

begin installing "the wheel, and the trainer, which is compiled against it"
[ -x $venv/bin/pip ] || python3 -m venv $venv
show $venv/bin/pip install -q --force-reinstall build/wheels/rondo_ccl-*.whl
show $venv/bin/rondo --version
quietly cmake -S api/examples -B build/demo -DCMAKE_PREFIX_PATH="$($venv/bin/rondo prefix)"
quietly cmake --build build/demo --target train_text
finish

begin measuring "all-reduce, 4 ranks as processes"
show $venv/bin/rondo bench all_reduce --ranks 4 -b 4 -e 16M -f 8 -n 20 --no-progress
finish

begin training "a character model on 1, 2 and 4 ranks"
for ranks in 1 2 4; do
  show $venv/bin/rondo run -n $ranks --no-prefix -- $trainer --steps "$steps" | tee "$logs/$ranks"
done
echo "-- last line of every run (the losses agree: one global batch, cut into shards)"
for ranks in 1 2 4; do
  printf '%s rank(s): %s\n' "$ranks" "$(tail -n 1 "$logs/$ranks")"
done
finish

cat <<END
== done in $SECONDS s: $times
What to try next:
  . $venv/bin/activate                   puts the wheel's commands into PATH
  rondo bench all_gather --ranks 2                another collective (--help lists them)
  rondo explain all_reduce 1M --ranks 4           which algorithm runs, and why
  rondo doctor                                    what slows Rondo down on this machine
  README.md, "What to do with what you have"      your own program, and PyTorch
END
