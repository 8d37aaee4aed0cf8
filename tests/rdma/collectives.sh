#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In the guest: `rondo bench` of all collectives between pretended hosts over RDMA; checks the data.
#
#   collectives.sh FOLDER_OF_PROGRAMS SHAPE...      SHAPE: hosts x ranks of a host, "2x2"
#
# Hosts with even numbers have rxe0 and rxe2, the others rxe1 and rxe3, so data cross the wires.
set -euo pipefail
bin=$1
shift
export NCCL_NET=IB NCCL_IB_TIMEOUT=18 NCCL_IB_RETRY_CNT=6

# run HOSTS EACH COLLECTIVE ALGORITHM
run() {
  local hosts=$1 each=$2 collective=$3 algorithm=$4 status=0
  local text="$collective ${algorithm:-by itself}, $hosts hosts of $each"
  timeout 120 env NCCL_DEBUG=INFO ${algorithm:+NCCL_ALGO=$algorithm} "$bin/rondo" run \
    -n $((hosts * each)) -- bash -c "host=\$((RANK / $each))
      export NCCL_HOSTID=host\$host NCCL_IB_HCA==rxe\$((host % 2)),rxe\$((host % 2 + 2))
      exec $bin/rondo bench $collective -b 4 -e 256K -f 256 -n 1 -w 0 -c 1 --no-progress" \
    >/run/job 2>&1 || status=$?
  grep -q "hosts communicate by IB" /run/job || status=no-RDMA
  [ "$collective" = barrier ] || grep -q "Out of bounds values : 0 OK" /run/job || status=wrong-data
  [ "$status" = 0 ] || { echo "FAILED: $text ($status)"; cat /run/job; exit 1; }
  echo "ok: $text"
}

for shape in "$@"; do
  hosts=${shape%x*} each=${shape#*x}
  for collective in all_reduce all_gather reduce_scatter broadcast reduce; do
    run "$hosts" "$each" $collective ring
  done
  for collective in all_reduce broadcast reduce; do run "$hosts" "$each" $collective tree; done
  if [ "$each" -gt 1 ]; then
    for collective in all_reduce all_gather reduce_scatter broadcast reduce; do
      run "$hosts" "$each" $collective hierarchical
    done
  fi
  for collective in alltoall gather scatter sendrecv hypercube barrier alltoallv all_gather_v \
    reduce_scatter_v gather_v scatter_v; do
    run "$hosts" "$each" $collective ''
  done
done
