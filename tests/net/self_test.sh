#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rondo doctor --self-test on four "hosts": network namespaces on one bridge, one of them behind a
# shaper at a twentieth of its port's rate.
#
#   self_test.sh PATH_TO_RONDO
#
# Prints the page. Exit status 77: not permitted here.
set -euo pipefail
rondo=$(realpath "$1")
name="rondo-$$"
work=$(mktemp -d)

skip() { echo "skipped: $1"; exit 77; }
fail() { echo "FAILED: $1"; cat "$work"/page "$work"/errors 2>/dev/null || true; exit 1; }
cleanup() {
  for host in 1 2 3 4 switch; do ip netns del "$name-$host" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT

[ "$(id -u)" = 0 ] || skip "network namespaces need root"
command -v ip > /dev/null || skip "the command ip (package iproute2) is missing"
ip netns add "$name-switch" 2> "$work/why" || skip "no network namespaces: $(cat "$work/why")"
ip -n "$name-switch" link add name bridge type bridge 2> "$work/why" ||
  skip "no bridges here: $(cat "$work/why")"
ip -n "$name-switch" link set bridge up
for host in 1 2 3 4; do
  ip netns add "$name-$host"
  ip link add port netns "$name-$host" type veth peer name "to$host" netns "$name-switch" \
    2> "$work/why" || skip "no veth pairs here: $(cat "$work/why")"
  ip -n "$name-switch" link set "to$host" master bridge up
  ip -n "$name-$host" link set lo up
  ip -n "$name-$host" address add "10.213.8.$host/24" dev port
  ip -n "$name-$host" link set port up
done
tc -n "$name-4" qdisc add dev port root tbf rate 500mbit burst 256k latency 100ms 2> "$work/why" ||
  skip "no shaper here: $(cat "$work/why")"

cat > "$work/agent" << END
#!/bin/sh
host=\${1##*.}
shift
exec ip netns exec "$name-\$host" env NCCL_HOSTID="host\$host" sh -c "\$*"
END
chmod +x "$work/agent"
status=0
timeout 300 "$rondo" doctor --self-test --ranks 1 --agent "$work/agent" \
  --hosts 10.213.8.1,10.213.8.2,10.213.8.3,10.213.8.4 > "$work/page" 2> "$work/errors" ||
  status=$?
[ "$status" = 1 ] || fail "the slow host is no problem: status $status"
grep -q "^problem *links of rank 3 *all 3 links of rank 3 (host host4) to other hosts are slow" \
  "$work/page" || fail "the slow host is not named"
grep -q "^ok *data " "$work/page" || fail "the data are not right"
cat "$work/page"
