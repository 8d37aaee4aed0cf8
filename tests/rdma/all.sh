#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that runs in one boot of the guest with two wires (guest.sh --wires 2): the tests, the
# engine's collectives between hosts over RDMA, losses and kills during them, then the output of
# `rondo doctor` with devices, with a port down, and without the library.
#
#   all.sh FOLDER_OF_PROGRAMS FOLDER_OF_THOSE_ON_EMULATED_GPUS quick|whole
#                                            whole: with one rail, more queue pairs, all
#                                            collectives and algorithms of `rondo bench`, and 20
#                                            of each fault
set -euo pipefail
bin=$1 gpu=$2 extent=$3
here=$(dirname "$(readlink -f "$0")")
only='*'
unasked='*/FourPairs:*/UcxOverVerbs:*NetworkPut*/OnePair'
unasked+=':PutsThroughLosses.*Everything*:PutsThroughLosses.*Both*'
unasked+=':Every/*/OnePair'  # they run over two rails in any case
[ "$extent" = whole ] || only="-$unasked"
"$bin/rdma_tests" --gtest_brief=1 --gtest_filter="$only"

export NCCL_IB_TIMEOUT=18 NCCL_IB_RETRY_CNT=6  # with 7, soft-RoCE retries a dead peer without limit
(
  for host in a c; do export "RONDO_TEST_HCA_$host==rxe0,rxe2"; done
  for host in b d; do export "RONDO_TEST_HCA_$host==rxe1,rxe3"; done
  along='OfSeveralHosts/ProcessCollectives.*AlongConnections'
  tests=$along/n2of2:$along/n4of2:$along/n4of4
  [ "$extent" != whole ] || tests=$along/*
  RONDO_TEST_NETWORK=IB "$bin/engine_tests" --gtest_brief=1 --gtest_filter="$tests"
)
bash "$here/puts.sh" "$bin" "$extent"
# Slots and windows in the memory of emulated GPUs.
(
  for host in a c; do export "RONDO_TEST_HCA_$host==rxe0"; done
  export RONDO_TEST_HCA_b==rxe1
  tests=*.EqualsTheReference*/two_hosts:*.MixesMessagesAndCalls/three_hosts
  tests=$tests:*/with_flushes:*/read_back:*/none_of_soft_roce
  tests=$tests:PutsToAHost.EndWhileTheTargetIsStopped:*/PutsToHosts.*Windows/two_hosts
  [ "$extent" != whole ] || tests=$tests:PutsTo*:*/PutsTo*
  RONDO_TEST_NETWORK=IB "$gpu/gpu_direct_tests" --gtest_brief=1 --gtest_filter="$tests"
)
if [ "$extent" = whole ]; then
  bash "$here/collectives.sh" "$bin" 2x1 2x2 4x1
  bash "$here/faults.sh" "$bin" 20
else
  bash "$here/faults.sh" "$bin" 1
fi

# job TEXT RANKS COLLECTIVE VARIABLES...: runs on two pretended hosts and checks the data.
job() {
  local text=$1 ranks=$2 collective=$3 status=0
  shift 3
  timeout 120 env NCCL_NET=IB NCCL_DEBUG=INFO "$@" "$bin/rondo" run -n "$ranks" -- bash -c \
    "export NCCL_HOSTID=host\$((RANK % 2)) NCCL_IB_HCA==rxe\$((RANK % 2)),rxe\$((RANK % 2 + 2))
     exec $bin/rondo bench $collective -b 4 -e 256K -f 64 -n 2 -w 1 --no-progress" \
    >/run/job 2>&1 || status=$?
  grep -q "rank 1: hosts communicate by IB" /run/job || status=no-RDMA
  local rails='uses RDMA port rxe1:1 (10.77.0.2) to 10.77.0.1, queue pair .*; RDMA port rxe3:1 '
  grep -q "rank 1: lane . to rank 0 .* $rails" /run/job ||
    status=no-line-of-the-link
  grep -q "Out of bounds values : 0 OK" /run/job || status=wrong-data
  [ "$status" = 0 ] || { echo "FAILED: $text ($status)"; cat /run/job; exit 1; }
  echo "ok: $text"
}
job "all-reduce of two hosts by RDMA" 2 all_reduce
job "all-to-all of two hosts of two ranks over four queue pairs" 4 alltoall \
  NCCL_IB_QPS_PER_CONNECTION=4
# IB is not chosen by default if only soft-RoCE is available.
NCCL_DEBUG=INFO timeout 60 "$bin/rondo" run -n 2 -- bash -c \
  "NCCL_HOSTID=host\$RANK exec $bin/rondo bench all_reduce -b 4 -e 4" >/run/job 2>&1 &&
  grep -q "hosts communicate by Socket" /run/job &&
  grep -q "network IB cannot be used here: there is only soft-RoCE (rxe0:1" /run/job ||
  { echo "FAILED: soft-RoCE by default"; cat /run/job; exit 1; }
echo "ok: soft-RoCE has to be asked for"
refused() {  # TEXT VARIABLE
  ! env NCCL_NET=IB NCCL_DEBUG=WARN "$2" timeout 60 "$bin/rondo" run -n 2 -- bash -c \
    "NCCL_HOSTID=host\$RANK exec $bin/rondo bench all_reduce -b 4 -e 4" >/run/job 2>&1 &&
    grep -q "$1" /run/job || { echo "FAILED: it is not said: $1"; cat /run/job; exit 1; }
  echo "ok: $1"
}
refused "NCCL_IB_HCA='mlx5': mlx5 fits none of this host's ports: rxe0:1" NCCL_IB_HCA=mlx5
refused "NCCL_IB_TIMEOUT=32 is not in 0..31" NCCL_IB_TIMEOUT=32
refused "NCCL_IB_DISABLE=1 forbids it" NCCL_IB_DISABLE=1

doctor() { "$bin/rondo" doctor >/tmp/doctor 2>&1 || true; }
said() {
  grep -q "$1" /tmp/doctor || {
    echo "FAILED: rondo doctor does not say: $1"
    cat /tmp/doctor
    exit 1
  }
  echo "ok: $1"
}
doctor
said "^ok .*rxe1:1 (RoCE, ACTIVE.*GID 1 is 10.77.0.2"
said "^ok .*locked memory .*unlimited"
ip link set veth1 down
doctor
said "^warning .*rxe1:1 is DOWN"
(ulimit -l 1024 && doctor)
said "^problem .*locked memory .*1 MiB: RDMA cannot register buffers"
NCCL_IB_HCA=mlx5 doctor
said "^problem .*NCCL_IB_HCA='mlx5': mlx5 fits none of this host's ports: rxe0:1"
# These are this machine's files under an overlay of the guest, so they do not change.
mv /etc/libibverbs.d /etc/libibverbs.gone
doctor
said "^problem .*the kernel has rxe0, but libibverbs does not offer it"
rm -f "$(ldconfig -p | awk '/libibverbs.so.1 / { print $NF; exit }')"
doctor
said "^problem .*cannot be used: libibverbs.so.1 cannot be loaded.*install libibverbs1"
refused "libibverbs.so.1 cannot be loaded.*install libibverbs1" NCCL_DEBUG=WARN
