#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rondo doctor --self-test on four "hosts": network namespaces on one bridge, one of them behind a
# shaper, far below the rate of its port, and of what is left of the others' on a busy machine.
#
#   self_test.sh PATH_TO_RONDO
#
# Prints the page. Exit status 77: not permitted here.
set -euo pipefail
rondo=$(realpath "$1")
source "$(dirname "$0")/hosts.sh"
work=$(mktemp -d)

fail() { echo "FAILED: $1"; cat "$work"/page "$work"/errors 2>/dev/null || true; exit 1; }
trap 'remove_hosts; rm -rf "$work"' EXIT
make_hosts 4 10.213.8
tc -n "$net-4" qdisc add dev port root tbf rate 80mbit burst 256k latency 100ms 2> "$work/why" ||
  skip "no shaper here: $(cat "$work/why")"

cat > "$work/agent" << END
#!/bin/sh
host=\${1##*.}
shift
exec ip netns exec "$net-\$host" env NCCL_HOSTID="host\$host" sh -c "\$*"
END
chmod +x "$work/agent"
status=0
timeout 1400 "$rondo" doctor --self-test --quick --ranks 1 --agent "$work/agent" \
  --hosts 10.213.8.1,10.213.8.2,10.213.8.3,10.213.8.4 > "$work/page" 2> "$work/errors" ||
  status=$?
[ "$status" = 1 ] || fail "the slow host is no problem: status $status"
grep -q "^problem *links of rank 3 *all 3 links of rank 3 (host host4) to other hosts are slow" \
  "$work/page" || fail "the slow host is not named"
grep -q "^ok *data " "$work/page" || fail "the data are not right"
cat "$work/page"
