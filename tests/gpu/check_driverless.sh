#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_driverless.sh BUILD: a GPU build on a machine without a driver. Ranks on the host work, and
# everything that needs a GPU reports that there is none.
set -euo pipefail
bin=$1/bin lib=$1/lib
if [ -e /proc/driver/nvidia/version ]; then
  echo "not run: this machine has a driver"
  exit 0
fi
failures=0
complain() { echo "driverless: $*"; failures=$((failures + 1)); }

# says TEXT STATUS command...: expects that status (some: any but 0) and TEXT in the output.
says() {
  local text=$1 wanted=$2 status=0 said
  shift 2
  said=$(timeout 60 "$@" 2>&1) || status=$?
  [ "$status" -ne 124 ] || complain "$* hung"
  case $wanted in
    some) [ "$status" -ne 0 ] || complain "$* ended with 0" ;;
    *) [ "$status" -eq "$wanted" ] || complain "$* ended with $status: $said" ;;
  esac
  grep -q -- "$text" <<<"$said" || complain "$* does not say '$text': $said"
}

for library in "$lib"/lib{rondo,nccl}.so; do
  # cudart is linked statically; the driver is loaded by name when a communicator is made.
  if ldd "$library" | grep -E 'libcuda|libcudart'; then complain "$library needs CUDA to load"; fi
done
says 'ranks use host memory: no CUDA device can be used' 0 "$bin/rondo" doctor
says 'RONDO_DEVICE' 0 "$bin/rondo" env
says '' 0 "$bin/rondo" run -n 3 -- "$bin/hello_allreduce"
says 'all_reduce' 0 "$bin/rondo" bench all_reduce --ranks 2 -b 4 -e 64K -f 16 -n 5 --no-progress
says '' 0 env LD_PRELOAD="$lib/libnccl.so.2" "$bin/client_nccl" 3
# Commands that need a GPU.
says 'GPU' some "$bin/rondo" bench all_reduce --ranks 2 -b 4 -e 4 -n 2 -G 2 --no-progress
says 'probe: all is as it should be' 0 python3 "$(dirname "$0")/check_probe.py" "$bin/gpu_probe"
says 'cudaGetDeviceCount' some "$bin/nccl_contestant" --library "$lib/libnccl.so.2" --ranks 1 \
  --sizes 4 --collective all_reduce
# Pure arithmetic runs everywhere.
says 'PASSED' 0 "$bin/gpu_tests" --gtest_filter='DevicePlan*:PeerAccess*'
echo "driverless: $failures complaints"
[ $failures -eq 0 ]
