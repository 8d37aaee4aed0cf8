#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by tests between hosts: hosts that are network namespaces on one switch.
#
#   make_hosts COUNT IPV4 [IPV6]   host N is the namespace $net-N. Its device is `port`, with the
#                                  addresses IPV4.N/24 and IPV6N/64. Exit status 77: not permitted
#   await_links                    until the devices of all hosts have a link
#   eventually COMMAND...          until it succeeds; status 1 after five minutes
#   remove_hosts                   the caller's trap on EXIT calls it
#   watch_jobs                     for jobs whose ranks are children of the script: makes the folder
#                                  $work for their logs and the array pids. At the end of the script
#                                  they and the hosts are gone
#   end_job                        kills the processes of pids
#   start_rank RANK HOST COMMAND   on host N, whose name there is nodeN; its output: $work/RANK.log
#   fail TEXT                      prints $work/page and all logs

net="rondo-$$"
host_count=0

skip() { echo "skipped: $1"; exit 77; }

make_hosts() {
  local host why
  [ "$(id -u)" = 0 ] || skip "network namespaces need root"
  command -v ip > /dev/null || skip "the command ip (package iproute2) is missing"
  why=$(ip netns add "$net-switch" 2>&1) || skip "no network namespaces here: $why"
  why=$(ip -n "$net-switch" link add name bridge type bridge 2>&1) || skip "no bridges here: $why"
  ip -n "$net-switch" link set bridge up
  for ((host = 1; host <= $1; host++)); do
    ip netns add "$net-$host"
    host_count=$host
    why=$(ip link add port netns "$net-$host" type veth peer name "to$host" \
      netns "$net-switch" 2>&1) || skip "no veth pairs here: $why"
    ip -n "$net-switch" link set "to$host" master bridge up
    ip -n "$net-$host" link set lo up
    ip -n "$net-$host" address add "$2.$host/24" dev port
    [ -z "${3:-}" ] || ip -n "$net-$host" address add "$3$host/64" dev port nodad
    ip -n "$net-$host" link set port up
  done
  await_links
}

eventually() {
  local end=$((SECONDS + 300))
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.1
  done
}

has_link() { [[ $(ip -n "$net-$1" link show port) = *LOWER_UP* ]]; }
await_links() {
  local host
  for ((host = 1; host <= host_count; host++)); do
    eventually has_link "$host" && continue
    echo "FAILED: the device of host $host does not come up"
    exit 1
  done
}

remove_hosts() {
  local host
  for host in $(seq "$host_count") switch; do ip netns del "$net-$host" 2> /dev/null || true; done
}

watch_jobs() {
  work=$(mktemp -d)
  pids=()
  trap 'end_job; remove_hosts; rm -rf "$work"' EXIT
}

fail() { echo "FAILED: $1"; cat "$work"/page "$work"/*.log 2> /dev/null || true; exit 1; }

end_job() {
  [ ${#pids[@]} = 0 ] || kill -9 "${pids[@]}" 2> /dev/null || true
  wait 2> /dev/null || true
  pids=()
}

start_rank() {
  ip netns exec "$net-$2" unshare --uts sh -c 'hostname "$0" && exec "$@"' "node$2" \
    env RANK="$1" "${@:3}" > "$work/$1.log" 2>&1 &
  pids[$1]=$!
}
