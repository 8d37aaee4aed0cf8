#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts and signals of ranks in host memory between hosts over RDMA, in the guest with two wires: the
# target stopped or killed, its window gone; sizes, hosts and signals of all kinds.
#
#   puts.sh FOLDER_OF_PROGRAMS quick|whole
#                                            quick: the stopped target alone
set -euo pipefail
export NCCL_IB_TIMEOUT=18 NCCL_IB_RETRY_CNT=6  # with 7, soft-RoCE retries a dead peer without limit
for host in a c; do export "RONDO_TEST_HCA_$host==rxe0,rxe2"; done
export RONDO_TEST_HCA_b==rxe1,rxe3
only='*RemotePuts*'
[ "$2" = whole ] || only='RemotePutsAsleep.*'
RONDO_TEST_NETWORK=IB "$1/engine_tests" --gtest_brief=1 --gtest_filter="$only"
