#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the guarantees of guest.sh: output and status of the command, no lasting effect of what it
# writes, and the end of a guest that does not end by itself. Five boots.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $1"; cat "$work/out" "$work/err" 2>/dev/null || true; exit 1; }
# guest TEXT STATUS ARGUMENTS...
guest() {
  local text=$1 wanted=$2 status=0
  shift 2
  "$here/guest.sh" "$@" >"$work/out" 2>"$work/err" || status=$?
  [ $status != 77 ] || { cat "$work/err"; exit 77; }
  [ $status = "$wanted" ] || fail "$text: the status is $status, not $wanted"
  echo "ok: $text"
}

mkdir "$work/shared"
head -c 3000000 /dev/urandom >"$work/shared/bytes"
mark=/var/tmp/rdma-guest-$$
SOME="a b'c" guest "output, status, folders, variables, two wires" 42 --wires 2 --keep SOME \
  --share "$work/shared" -- bash -c "
    cat $work/shared/bytes
    printf '%s|' \"\$SOME\" \"\$1\" \"\$(ls /sys/class/infiniband | tr '\n' ' ')\" >&2
    touch $mark
    exit 42" name "an argument"
cmp "$work/out" "$work/shared/bytes" || fail "standard output is not the command's"
[ "$(cat "$work/err")" = "a b'c|an argument|rxe0 rxe1 rxe2 rxe3 |" ] || fail "standard error"
[ ! -e "$mark" ] || fail "the guest wrote to this machine"

guest "a command that is killed" 137 -- bash -c 'kill -9 $$'
guest "a panic" 125 -- bash -c 'echo before; echo c >/proc/sysrq-trigger; sleep 60'
grep -q 'sysrq triggered crash' "$work/err" || fail "the panic is not told"
grep -q before "$work/out" || fail "output before the panic is lost"
guest "the limit" 124 --limit 20 -- sleep 1000
grep -q 'stopped after 20 seconds' "$work/err" || fail "the limit is not told"

mkdir "$work/bin"  # without qemu
for program in bash dirname readlink uname sed; do ln -s "$(command -v $program)" "$work/bin/"; done
PATH=$work/bin "$here/guest.sh" true 2>"$work/err" && fail "no qemu, and no complaint" ||
  [ $? = 77 ] || fail "without qemu it is not skipped"
grep -q 'qemu-system-x86_64 is missing' "$work/err" || fail "it is not told that qemu is missing"
echo "ok: without qemu it is skipped"
