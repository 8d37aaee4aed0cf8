#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In the guest, with two wires: all-reduces of 16 MiB between two hosts with two rails. During them
# a wire goes down or loses all packets, or a rank is killed or stopped. If the job can continue,
# the sums must be right; otherwise both ranks must return an error in time. If a wire is slow,
# `rondo ps` names a port at it.
#
#   faults.sh FOLDER_OF_PROGRAMS TIMES [FAULT...]
set -euo pipefail
bin=$1 times=$2
shift 2
[ $# -gt 0 ] || set -- down silent both kill pause stop slow
export NCCL_NET=IB NCCL_IB_TIMEOUT=16 NCCL_IB_RETRY_CNT=4 RONDO_NET_TIMEOUT=5
export NCCL_SOCKET_IFNAME=lo  # non-RDMA traffic does not use the wires
job=''

fail() { echo "FAILED: $1"; cat /run/job /run/page 2>/dev/null || true; exit 1; }
received() { cat "/sys/class/net/veth1/statistics/rx_bytes"; }
# wait_for SECONDS COMMAND...
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || fail "it does not come: $*"
    sleep 0.1
  done
}
# start RONDO_TIMEOUT ITERATIONS: returns when the first wire has carried 3 MiB of the job.
start() {
  local before
  before=$(received)
  rm -f /run/rank.*
  RONDO_TIMEOUT=$1 NCCL_DEBUG=INFO "$bin/rondo" run --keep-going -n 2 -- bash -c '
      echo $$ >/run/rank.$RANK
      export NCCL_HOSTID=host$RANK NCCL_IB_HCA==rxe$RANK,rxe$((RANK + 2))
      exec "$0" bench all_reduce -b 16M -e 16M -n "$1" -w 0 -c 1 --no-progress' \
    "$bin/rondo" "$2" \
    >/run/job 2>&1 &
  job=$!
  wait_for 90 in_the_middle $((before + (3 << 20)))
}
in_the_middle() { [ "$(received)" -gt "$1" ] || ! kill -0 $job 2>/dev/null; }
ended() { ! kill -0 $job 2>/dev/null; }

# ends TEXT STATUS SECONDS: 0, or "error"
ends() {
  local status=0
  wait_for "$3" ended
  wait $job || status=$?
  if [ "$2" = 0 ]; then
    [ $status = 0 ] || fail "$1: the status is $status"
    grep -q 'Out of bounds values : 0 OK' /run/job || fail "$1: wrong sums"
  else
    [ $status != 0 ] || fail "$1: it went on"
  fi
  echo "ok: $1"
}
says() { grep -Eq "$1" /run/job || fail "it is not said: $1"; }

raise() {  # WIRE
  ip link set "veth$((2 * $1))" up
  ip route replace "10.77.$1.2" dev "veth$((2 * $1))" src "10.77.$1.1" table $((100 + 2 * $1))
}
silence() {  # add|del WIRE
  local end loss='netem loss 100%'
  [ "$1" = add ] || loss=''
  for end in 0 1; do tc qdisc "$1" dev "veth$((2 * $2 + end))" root $loss; done
}

down() {
  start 60 1
  ip link set veth0 down
  ends "a wire goes down in the middle: right sums" 0 120
  says 'continues to rank [01] .* with 1 of 2 rails'
  raise 0
}
silent() {
  start 60 1
  silence add 0
  ends "a wire loses everything in the middle: right sums" 0 120
  says 'continues to rank [01] .* with 1 of 2 rails'
  silence del 0
}
both() {
  start 60 6
  silence add 0
  silence add 1
  ends "both wires lose everything: an error of both ranks" error 60
  says 'the connection of rank ([01]) to rank [01] .* ended: .*RDMA port rxe[0-3]:1 \(10\.77\.'
  says 'queue pair [0-9]+.*10\.77\.'
  silence del 0
  silence del 1
}
kill_one() {
  start 60 6
  kill -KILL "$(cat /run/rank.1)"
  ends "a rank is killed in the middle: the other one ends" error 60
  says 'rank 1 .*(is gone|ended)'
}
pause() {
  start 60 1
  kill -STOP "$(cat /run/rank.1)"
  sleep 7  # longer than RONDO_NET_TIMEOUT; the stopped rank's device still answers
  kill -CONT "$(cat /run/rank.1)"
  ends "a rank stands still for a while: right sums" 0 120
}
stop() {
  start 8 6
  kill -STOP "$(cat /run/rank.1)"
  wait_for 60 grep -q 'error: rank 0' /run/job
  echo "ok: a rank stands still: the other one ends"
  kill -KILL "$(cat /run/rank.1)"
  wait_for 30 ended
}

# shape add BYTES_PER_SECOND | shape del: the second wire, at both ends.
shape() {
  local end rate=''
  [ "$1" = del ] || rate="netem rate $(($2 * 8))bit limit 100000"
  for end in 2 3; do tc qdisc "$1" dev "veth$end" root $rate; done
}
asked() { "$bin/rondo" ps "$(cat /run/rank.0)" --hosts >/run/page 2>&1; }
named() { asked && grep -E '^the network from .* \(rxe[0-3]:1\) to .* is slow' /run/page; }
slow() {
  NCCL_IB_TIMEOUT=20 start 60 100000
  local before
  before=$(received)
  for ((look = 0; look < 20; ++look)); do
    ! named || fail "a wire is accused that is as fast as the other: $(cat /run/page)"
    sleep 0.2
  done
  shape add $((($(received) - before) / 4 / 20))  # a busy guest moves little on the first wire
  wait_for 120 named
  grep -Eq '^the network from .* \(rxe[23]:1\) to .* is slow' /run/page ||
    fail "another wire is named: $(cat /run/page)"
  shape del
  kill -KILL "$(cat /run/rank.0)" "$(cat /run/rank.1)"
  wait_for 30 ended
  echo "ok: a port at a slow wire is named"
}

for ((turn = 0; turn < times; ++turn)); do
  for fault in "$@"; do
    [ "$fault" != kill ] || fault=kill_one
    "$fault"
  done
done
