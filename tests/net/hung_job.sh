#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs of two ranks on each of two "hosts" that hang: one command, asked of a rank of the other
# host, names the culprit. The block of docs/operate/status.md.
#
#   hung_job.sh PATH_TO_RONDO
#
# A rank is stopped in a call; in other jobs the network of a host goes, or a rank never comes to
# ncclCommInitRank. Exit status 77: not permitted here.
set -euo pipefail
[ $# = 1 ] || { echo "usage: hung_job.sh PATH_TO_RONDO" >&2; exit 2; }
rondo=$(command -v "$1") || { echo "there is no program $1" >&2; exit 2; }
rondo=$(realpath "$rondo")
library=$("$rondo" preload)  # of a build folder, a package or a wheel
library=${library#LD_PRELOAD=}
program=("$rondo" bench all_reduce -b 4 -e 4 -n 100000000 --no-progress)
source "$(dirname "$0")/hosts.sh"
export RONDO_SECRET=0123456789abcdef0123456789abcdef RONDO_INIT_TIMEOUT=600
export RONDO_NET_TIMEOUT=600  # a job outlives its network until it has been asked

watch_jobs
make_hosts 2 10.213.6

# start PORT RANK...: these ranks of a job of four, 0 and 1 on node1, 2 and 3 on node2.
start() {
  local port=$1 rank
  shift
  for rank in "$@"; do
    start_rank "$rank" $((rank / 2 + 1)) WORLD_SIZE=4 MASTER_ADDR=10.213.6.1 \
      MASTER_PORT="$port" "${program[@]}"
  done
}

# shows TEXT RANK: waits until `rondo ps` says this of the job of that rank. No rank may end.
says() { "$rondo" ps "${pids[$2]}" --hosts > "$work/page" 2>&1 && grep -q "$1" "$work/page"; }
all_live() {
  local pid
  for pid in "${pids[@]}"; do kill -0 "$pid" 2> /dev/null || return 1; done
}
says_or_ended() { says "$@" || ! all_live; }
shows() {
  eventually says_or_ended "$@" || fail "rondo ps does not say: $1"
  all_live || fail "a rank of the job has ended"
}

start 29521 0 1 2 3
shows "call [0-9][0-9][0-9]" 0
kill -STOP "${pids[3]}"
shows "^rank 3 (pid ${pids[3]} on node2) is stopped" 0
echo "\$ rondo ps ${pids[0]} --hosts"
cat "$work/page"
end_job

# The network of a host goes: nobody there answers.
start 29524 0 1 2 3
shows "call [0-9][0-9][0-9]" 0
ip -n "$net-2" link set port down
shows "^rank [23] (pid [0-9]* on node2) does not answer, nor does another process of its host" 0
echo "\$ rondo ps ${pids[0]} --hosts"
cat "$work/page"
end_job
ip -n "$net-2" link set port up
await_links

# The ranks of a program that meets by NCCL_COMM_ID, so that ncclCommInitRank itself waits.
cat > "$work/meet.py" << 'EOF'
import ctypes, os, sys
class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
nccl, unique_id, comm = ctypes.CDLL(sys.argv[1]), UniqueId(), ctypes.c_void_p()
nccl.ncclGetUniqueId(ctypes.byref(unique_id))
nccl.ncclCommInitRank(ctypes.byref(comm), 4, unique_id, int(os.environ["RANK"]))
EOF
program=(python3 "$work/meet.py" "$library")
export NCCL_COMM_ID=10.213.6.1:29522
start 29522 0 1 3
shows "^rank 2 has not joined" 3
echo "\$ rondo ps ${pids[3]} --hosts"
cat "$work/page"
end_job

export NCCL_COMM_ID=10.213.6.1:29523
start 29523 1 2 3
shows "^rank 0 has not joined" 2
