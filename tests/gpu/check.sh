#!/usr/bin/env bash
# Everything that only a real GPU can answer, most telling first, in under 9 minutes.
#   bash tests/gpu/check.sh            builds the preset cuda for this device; into gpu-results/
#   bash tests/gpu/check.sh --packed   uses the binaries beside it (tests/gpu/pack.sh made them)
#   OUT=folder                         where results go; at most 8 files, written as they come
#   SECONDS_IN_ALL=540                 the build included; what has no time left is named as not run
# Ends with a verdict; non-zero where anything failed or there is no GPU. What cannot run is listed
# with the reason.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-gpu-results}
mkdir -p "$out"
out=$(cd "$out" && pwd)
export RONDO_TIMEOUT=${RONDO_TIMEOUT:-5}
failed=() not_run=()

if ! devices=$(nvidia-smi -L 2>&1); then
  echo "no GPU: nvidia-smi finds none on this machine; nothing was checked" >&2
  exit 77
fi

# stage NAME SECONDS FILE command...: appends what the command says to FILE.
in_all=${SECONDS_IN_ALL:-540}
stage() {
  local name=$1 seconds=$2 file=$out/$3 begin=$SECONDS left=$((in_all - SECONDS))
  shift 3
  [ "$left" -ge 5 ] || { cannot "$name" "no time was left of $in_all s"; return; }
  [ "$seconds" -le "$left" ] || seconds=$left
  { echo "== $name: $*"; timeout -k 5 "$seconds" "$@"; } >>"$file" 2>&1
  local status=$?
  [ $status -eq 0 ] || failed+=("$name (exit status $status, see $file)")
  echo "$name: $([ $status -eq 0 ] && echo passed || echo FAILED) in $((SECONDS - begin)) s"
}
cannot() { not_run+=("$1: $2"); }
# tests NAME SECONDS FILTER PROGRAM [command before it...]: a filter must name tests that there are.
tests() {
  local name=$1 seconds=$2 filter=$3 program=$bin/$4
  shift 4
  [ "$("$program" --gtest_list_tests --gtest_filter="$filter" | grep -c '^  ')" -gt 0 ] || {
    failed+=("$name (no test is named $filter)")
    return
  }
  # Not brief: what hung is the last that is named.
  stage "$name" "$seconds" tests.txt "$@" "$program" --gtest_filter="$filter"
}

if [ "${1:-}" = --packed ]; then
  bin=$here lib=$here
else
  cd "$here/../.."
  arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
  { cmake --preset cuda "-DCMAKE_CUDA_ARCHITECTURES=$arch-real" &&
    cmake --build --preset cuda --target gpu_tests gpu_process_tests gpu_probe rondo_shared \
      nccl_shared rondo nccl_contestant -j "$(nproc)"; } \
    >"$out/build.txt" 2>&1 || {
    echo "the build failed; its last lines:" >&2
    tail -n 20 "$out/build.txt" >&2
    exit 1
  }
  bin=build/cuda/bin lib=build/cuda/lib
fi

stage probe 150 probe.json "$bin/gpu_probe"
tests correctness 120 '-*ll128*' gpu_tests
# Nothing promises that lines of 128 bytes stay whole: a failure here is an answer, too.
tests ll128-forced 30 '*ll128*' gpu_tests
some='*/1:Graphs.*:*Meet*_devices:*CopyEngines*'
tests blocking-launches 30 "$some" gpu_tests env CUDA_LAUNCH_BLOCKING=1
tests one-connection 30 "$some" gpu_tests env CUDA_DEVICE_MAX_CONNECTIONS=1
tests processes 100 '-*/2' gpu_process_tests
tests processes-one-connection 20 'SharedGpu*' gpu_process_tests env CUDA_DEVICE_MAX_CONNECTIONS=1

if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
  for ranks in ${TORCH_RANKS:-1 2 4}; do  # processes on the one GPU
    stage "pytorch-$ranks" 40 programs.txt \
      env LD_PRELOAD="$lib/libnccl.so.2" python3 "$here/torch_check.py" --ranks "$ranks"
    [ "$ranks" -eq 1 ] || stage "pytorch-$ranks-killed" 40 programs.txt \
      env LD_PRELOAD="$lib/libnccl.so.2" python3 "$here/torch_check.py" --ranks "$ranks" --kill
  done
else
  cannot pytorch "python3 has no torch that sees a device"
fi
# Other clients of NCCL's, each on the one GPU: vLLM's and CuPy's calls by ctypes, CuPy, JAX.
clients=$here/clients
nvidia=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null)
cudart=$(ls "$nvidia"/*/lib/libcudart.so.1? 2>/dev/null | tail -n 1)
[ -n "$cudart" ] || cudart=$(ls /usr/local/cuda/lib64/libcudart.so.1? 2>/dev/null | tail -n 1)
if [ -n "$cudart" ]; then
  for client in vllm cupy; do
    stage "as-$client" 30 programs.txt \
      env LD_PRELOAD="$lib/libnccl.so.2" python3 "$clients/as_$client.py" "$cudart" 2
  done
else
  cannot "vLLM's and CuPy's calls" "no libcudart.so beside CUDA or PyTorch"
fi
for client in cupy jax; do
  if reason=$(timeout 60 python3 "$clients/with_$client.py" cuda 0 2>&1); then
    stage "with-$client" 60 programs.txt \
      env LD_PRELOAD="$lib/libnccl.so.2" python3 "$clients/with_$client.py" cuda 2
  else
    cannot "$client" "$(tail -n 1 <<<"$reason")"
  fi
done

# By CUDA events; %roof is the share of what the device's own copies reach in the same run. The
# second sweep walks through more memory than the L2 holds.
for ranks in 1 2 4 8; do
  sweep="$bin/rondo bench all_reduce -g 1 --ranks-per-gpu $ranks -f 16 --no-progress"
  stage "bench-$ranks" 15 bench.txt $sweep -b 4 -e 1M -n 50
  stage "bench-$ranks-graph" 15 bench.txt $sweep -b 4 -e 64K -n 50 -G 4
  stage "bench-$ranks-large" 30 bench.txt $sweep -b 16M -e 256M -n 10 -w 2 --rotate 512M -c 0
done
for ranks in 2 4; do
  stage "bench-$ranks-processes" 30 bench.txt "$bin/rondo" bench all_reduce --ranks $ranks -b 4 \
    -e 64M -f 32 -n 20 -w 2 --no-progress
done
for kind in all_gather reduce_scatter broadcast alltoall sendrecv; do
  stage "bench-$kind" 15 bench.txt "$bin/rondo" bench $kind -g 1 --ranks-per-gpu 4 -b 64K -e 64M \
    -f 32 -n 10 --no-progress
done
gpus=$(grep -c '^GPU ' <<<"$devices")
if [ "$gpus" -gt 1 ]; then
  # Processes with a GPU each, as torchrun starts them: small calls push lines, by default.
  for algorithm in "" ring tree; do
    stage "bench-$gpus-processes-${algorithm:-any}" 15 bench.txt env "NCCL_ALGO=$algorithm" \
      "$bin/rondo" bench all_reduce --ranks "$gpus" -b 4 -e 1M -f 4 -n 20 --no-progress
  done
  for way in ring:LL ring:LL128 ring:Simple tree:LL tree:Simple oneshot:LL twoshot:Simple; do
    stage "bench-$gpus-gpus-$way" 15 bench.txt env "NCCL_ALGO=${way%:*}" "NCCL_PROTO=${way#*:}" \
      "$bin/rondo" bench all_reduce -g "$gpus" -b 4 -e 4M -f 16 -n 20 --no-progress
  done
else
  cannot several-gpus "there is one GPU: rings, trees and pushed lines between GPUs are unmeasured"
fi

# NVIDIA's library and ours in turns; ranks that share the device where there is one.
beside=$here/../../bench/beside/beside.py
[ -f "$beside" ] || beside=$here/beside.py
nccl=$nvidia/nccl/lib/libnccl.so.2
if [ -f "$nccl" ]; then
  stage nccl-beside 120 bench.txt python3 "$beside" --contestant "$bin/nccl_contestant" \
    --ours "$lib/libnccl.so.2" --theirs "$nccl" --ranks 1,2 --seconds 100 --json "$out/beside.json"
else
  cannot nccl-beside "PyTorch brings no libnccl.so.2 here"
fi

if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    tests "$tool" 40 '*OddSizes*/1' gpu_tests compute-sanitizer --tool "$tool" --error-exitcode 9
  done
else
  cannot compute-sanitizer "it is not on this machine"
fi

{
  for reason in "${not_run[@]}"; do echo "not run: $reason"; done
  for name in "${failed[@]}"; do echo "FAILED: $name"; done
  [ ${#failed[@]} -eq 0 ] && echo "all that ran passed on ${devices%%$'\n'*}"
} | tee "$out/verdict.txt"
[ ${#failed[@]} -eq 0 ]
