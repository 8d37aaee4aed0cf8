#!/usr/bin/env bash
# In the guest, with two wires: perftest and Rondo in turns, and the medians of their ratios.
#
#   rdma_guest.sh RONDO ROUNDS
set -euo pipefail
rondo=$1 rounds=$2
export NCCL_IB_TIMEOUT=18 NCCL_IB_RETRY_CNT=6
bytes=16777216

# gid DEVICE ADDRESS: the place of an address in the device's table, as RoCE v2.
gid() {
  local table=/sys/class/infiniband/$1/ports/1 at hex
  hex=$(printf '%02x%02x:%02x%02x' ${2//./ })
  for at in "$table"/gids/*; do
    at=${at##*/}
    grep -q "ffff:$hex\$" "$table/gids/$at" &&
      grep -q v2 "$table/gid_attrs/types/$at" 2>/dev/null && { echo "$at"; return; }
  done
  echo "no GID of $2 on $1" >&2
  exit 1
}
near=$(gid rxe0 10.77.0.1) far=$(gid rxe1 10.77.0.2)

# perftest PROGRAM COLUMN ARGUMENTS...: that column of its last line.
perftest() {
  local program=$1 column=$2 server
  shift 2
  "$program" -d rxe1 -x "$far" "$@" >/run/server 2>&1 &
  server=$!
  sleep 1
  "$program" -d rxe0 -x "$near" "$@" 127.0.0.1 >/run/client 2>&1 ||
    { cat /run/client /run/server >&2; exit 1; }
  wait $server
  awk -v column="$column" '/^ *[0-9]/ { found = $column } END { print found }' /run/client
}
# rondo_bench COLLECTIVE BYTES CALLS PORTS_OF_0 PORTS_OF_1: microseconds a call.
rondo_bench() {
  NCCL_NET=IB timeout 300 "$rondo" run -n 2 -- bash -c '
      export NCCL_HOSTID=host$RANK
      [ $RANK = 0 ] && export NCCL_IB_HCA=="$5" || export NCCL_IB_HCA=="$6"
      exec "$1" bench "$2" -b "$3" -e "$3" -n "$4" -w 3 -c 0 --no-progress' \
    - "$rondo" "$1" "$2" "$3" "$4" "$5" >/run/rondo 2>&1 || { cat /run/rondo >&2; exit 1; }
  sed 's/^.*\] *//' /run/rondo | awk -v bytes="$2" '$1 == bytes { found = $6 } END { print found }'
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f\n", a / b }'; }
median() { sort -g "$1" | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

rm -f /run/ratio.*
for ((round = 0; round < rounds; ++round)); do
  bare=$(perftest ib_write_bw 4 -s 131072 -n 1000)        # MB/s, on the average
  one=$(rondo_bench broadcast $bytes 8 rxe0 rxe1)
  two=$(rondo_bench broadcast $bytes 8 rxe0,rxe2 rxe1,rxe3)
  ratio "$(ratio $bytes "$one")" "$bare" >>/run/ratio.stream  # bytes a microsecond are MB/s
  ratio "$one" "$two" >>/run/ratio.rails
  bare=$(perftest ib_write_lat 5 -s 8 -n 2000)            # us, one way, typically
  one=$(rondo_bench all_reduce 8 500 rxe0 rxe1)
  ratio "$one" "$bare" >>/run/ratio.latency
done
echo "broadcast of 16 MiB in slots of 128 KiB, GB/s by ib_write_bw's at 128 KiB:" \
  "$(median /run/ratio.stream)"
echo "all-reduce of 8 B, us by ib_write_lat's one way: $(median /run/ratio.latency)"
echo "broadcast of 16 MiB by two rails, times as fast as by one: $(median /run/ratio.rails)"
