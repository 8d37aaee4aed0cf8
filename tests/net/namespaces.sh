#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks on two "hosts": two network namespaces.
#
#   namespaces.sh PATH_TO_NET_SLOT_STREAM [PATH_TO_RONDO]
#
# Streams over IPv4 and IPv6, over a slow and lossy link if the kernel has netem, and with faults
# during a transfer: the link goes down, a rank is killed. Then whole communicators: two ranks on
# each side, with shared memory inside a host and TCP between hosts. Exit status 77: not permitted
# here.
set -euo pipefail
program=$(realpath "$1")
rondo=$(realpath "${2:-/bin/false}")
source "$(dirname "$0")/hosts.sh"
work=$(mktemp -d)

cleanup() {
  for job in $(jobs -p); do kill -9 "$job" 2>/dev/null || true; done
  remove_hosts
  rm -rf "$work"
}
trap cleanup EXIT
make_hosts 2 10.213.7 fd13:7::
a=$net-1 b=$net-2

# start RANK SIZE SPACE MEGABYTES DEADLINE: starts in the background; $pid is its pid.
start() {
  ip netns exec "$3" "$program" "$work/blobs" "$1" "$2" "$4" "$5" > "$work/$1.log" 2>&1 &
  pid=$!
}
fresh() { rm -rf "$work/blobs" "$work"/*.log; mkdir -p "$work/blobs"; }

expect_ok() {  # TEXT MEGABYTES
  fresh
  local pids=()
  start 0 3 "$a" "$2" 300; pids+=("$pid")
  start 1 3 "$b" "$2" 300; pids+=("$pid")
  start 2 3 "$b" "$2" 300; pids+=("$pid")
  for one in "${pids[@]}"; do wait "$one" || fail "$1"; done
  echo "ok: $1"
}

# expect_fault TEXT RANK STATUS PATTERN
expect_fault() {
  local status=0
  wait "$3" || status=$?
  [ "$status" = 3 ] || fail "$1: rank $2 ended with status $status"
  grep -q "$4" "$work/$2.log" || fail "$1: rank $2 does not say '$4'"
  echo "ok: $1: $(tail -n 1 "$work/$2.log")"
}
# Until the second host has received 20 MB more, or the first rank has ended early.
received() { ip -n "$b" -s link show port | awk '/RX:/ { getline; print $1 }'; }
has_received() { [ "$(received)" -gt "$1" ] || ! kill -0 "$first" 2> /dev/null; }
in_transfer() { eventually has_received $(($(received) + 20000000)) || fail "no data come"; }

NCCL_SOCKET_FAMILY=AF_INET expect_ok "a ring of three ranks over IPv4" 64
NCCL_SOCKET_FAMILY=AF_INET6 expect_ok "a ring of three ranks over IPv6" 64
NCCL_SOCKET_IFNAME=port NCCL_NSOCKS_PERTHREAD=4 expect_ok "four sockets a link" 64
if ip netns exec "$a" tc qdisc add dev port root netem delay 2ms loss 1% 2> /dev/null; then
  expect_ok "a link that delays and loses packets" 8
  ip netns exec "$a" tc qdisc del dev port root
fi

endless=1000000
export RONDO_NET_TIMEOUT=2
fresh
start 0 2 "$a" "$endless" 300; first=$pid
start 1 2 "$b" "$endless" 300; second=$pid
in_transfer
ip -n "$a" link set port down
expect_fault "a link goes down" 0 "$first" "rank 1 .* ended"
expect_fault "a link goes down" 1 "$second" "rank 0 .* ended"
ip -n "$a" link set port up
ip -n "$a" address replace "fd13:7::1/64" dev port nodad
await_links

export RONDO_NET_TIMEOUT=60
fresh
start 0 2 "$a" "$endless" 2; first=$pid
start 1 2 "$b" "$endless" 2; second=$pid
in_transfer
ip -n "$a" link set port down
expect_fault "the deadline is shorter than the network's" 0 "$first" "rank 1"
expect_fault "the deadline is shorter than the network's" 1 "$second" "rank 0"
ip -n "$a" link set port up
ip -n "$a" address replace "fd13:7::1/64" dev port nodad
await_links

fresh
start 0 2 "$a" "$endless" 300; first=$pid
start 1 2 "$b" "$endless" 300; second=$pid
in_transfer
kill -9 "$second"
expect_fault "a rank is killed" 0 "$first" "rank 1 .* ended"

ucx=$(ldconfig -p | grep 'libucp\.so\.0' || true)
if [ -n "$ucx" ]; then
  export NCCL_NET=UCX UCX_TLS=tcp NCCL_SOCKET_FAMILY=AF_INET
  expect_ok "a ring of three ranks by UCX" 64
  fresh
  start 0 2 "$a" "$endless" 300; first=$pid
  start 1 2 "$b" "$endless" 300; second=$pid
  in_transfer
  kill -9 "$second"
  expect_fault "a rank is killed that talks by UCX" 0 "$first" "rank 1 .* ended"
  unset NCCL_NET UCX_TLS NCCL_SOCKET_FAMILY
fi
[ $# -gt 1 ] || exit 0
unset RONDO_NET_TIMEOUT
export RONDO_INIT_TIMEOUT=300

# job TEXT COLLECTIVE ADDRESS VARIABLES...: ranks 0 and 1 here, 2 and 3 there; checks the data.
job() {
  local text=$1 collective=$2 address=$3 rank space pids=()
  shift 3
  fresh
  for rank in 0 1 2 3; do
    space=$a
    [ "$rank" -lt 2 ] || space=$b
    ip netns exec "$space" env RANK=$rank WORLD_SIZE=4 MASTER_ADDR="$address" MASTER_PORT=29517 \
      NCCL_DEBUG=INFO "$@" timeout 600 "$rondo" bench "$collective" -b 4 -e 8M -f 128 -n 3 -w 1 \
      --no-progress --extended > "$work/$rank.log" 2>&1 &
    pids+=($!)
  done
  for one in "${pids[@]}"; do wait "$one" || fail "$text"; done
  grep -q "Out of bounds values : 0 OK" "$work/0.log" || fail "$text: wrong data"
  for rank in 0 1 2 3; do
    grep -q "rank $rank of 4: 2 ranks on this host, 2 hosts" "$work/$rank.log" ||
      fail "$text: rank $rank does not say that there are two hosts"
  done
  echo "ok: $text"
}
job "all-reduce of two hosts of two ranks over IPv4" all_reduce 10.213.7.1 \
  NCCL_SOCKET_FAMILY=AF_INET
job "all-to-all of two hosts of two ranks over IPv6" alltoall fd13:7::1 \
  NCCL_SOCKET_FAMILY=AF_INET6 NCCL_SOCKET_IFNAME=port
[ -z "$ucx" ] || job "all-reduce of two hosts of two ranks by UCX" all_reduce 10.213.7.1 \
  NCCL_NET=UCX UCX_TLS=tcp NCCL_SOCKET_FAMILY=AF_INET
