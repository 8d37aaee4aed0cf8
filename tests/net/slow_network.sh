#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The status of a job on three "hosts", network namespaces on one switch, names the host whose
# network is slow, then the one whose network loses packets, and none while all links are alike.
#
#   slow_network.sh PATH_TO_RONDO
#
# Exit status 77: not permitted here.
set -euo pipefail
[ $# = 1 ] || { echo "usage: slow_network.sh PATH_TO_RONDO" >&2; exit 2; }
rondo=$(command -v "$1") || { echo "there is no program $1" >&2; exit 2; }
rondo=$(realpath "$rondo")
source "$(dirname "$0")/hosts.sh"
port=29531
export RONDO_SECRET=0123456789abcdef0123456789abcdef NCCL_ALGO=Ring RONDO_INIT_TIMEOUT=600

watch_jobs
make_hosts 3 10.213.9

start() {
  local rank
  port=$((port + 1))
  for rank in 0 1 2; do
    start_rank "$rank" $((rank + 1)) WORLD_SIZE=3 MASTER_ADDR=10.213.9.1 MASTER_PORT="$port" \
      "$rondo" bench all_reduce -b 2M -e 2M -n 100000000 --no-progress
  done
}

page() { "$rondo" ps "${pids[0]}" --hosts > "$work/page" 2>&1; }

# names TEXT: waits until `rondo ps` says this of the network.
says() { page && grep -q "$1" "$work/page"; }
names() {
  eventually says "$1" || fail "rondo ps does not say: $1"
  grep "$1" "$work/page"
}

# All links of these hosts have one rate, and long queues, which drop nothing.
shape() {  # HOST RATE
  tc -n "$net-$1" qdisc replace dev port root tbf rate "$2" burst 64k limit 20m \
    2> "$work/why" || skip "no shaper here: $(cat "$work/why")"
}
for host in 1 2 3; do shape "$host" 1gbit; done
start
eventually says "call [0-9][0-9]" || fail "the job makes no calls"
# On a busy machine a host that does not run has a low rate for a moment: what is said once is no
# accusation, what stays is one.
is_healthy() { page && ! grep "the network" "$work/page"; }
for turn in $(seq 10); do
  eventually is_healthy || fail "a healthy network is accused, or rondo ps has no status of the job"
  sleep 0.2
done
echo "ok: no network of a healthy job is accused"
shape 2 100mbit
names "^the network from node2 .*to node3 .*is slow: .* MB/s, other links"
end_job
start
shape 2 2mbit  # a few calls a minute
names "^the network from node2 .*to node3 .*is slow: 0[.][0-9] MB/s, other links"
end_job
shape 2 1gbit

# Without netem: a queue of seven packets.
tc -n "$net-3" qdisc replace dev port root netem loss 5% 2> "$work/why" ||
  tc -n "$net-3" qdisc replace dev port root tbf rate 200mbit burst 10k limit 10k
start
names "^the network from node3 .*to node1 .*loses packets"
