#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sweeps on a GPU how much data the kernels have in flight (kernels/cuda/shapes.h): builds the
# library with other values, and measures each build with stages of set B of check.sh.
#   bash tests/gpu/sweep.sh [ROW...]    all rows of the table below, or these
# Variables: LIST=1 checks the table against shapes.h and the stages, and builds nothing;
# OUT=gpu-sweep, where each row has a folder with its results, and sweep.txt has all of them.
# Needs nvcc and a GPU. A row takes minutes to build: what ccache has seen is not compiled again.
set -euo pipefail
cd "$(dirname "$0")/../.."
simple=ring.Simple-1,copies.Simple-1 ll=ring.LL-1 ll128=ring.LL128-1,copies.LL128-1
nvls=gpus.nvls-Simple-1,gpus.nvls-Simple

# Row, stages, and the values that differ from shapes.h; or a variable, which needs no other build:
# NCCL_BUFFSIZE is the bytes of a connection's 4 slots.
table="
as-it-is        $simple,$ll,$ll128,$nvls
slots-32k       $simple   NCCL_BUFFSIZE=131072
slots-128k      $simple   NCCL_BUFFSIZE=524288
slots-256k      $simple   NCCL_BUFFSIZE=1048576
slots-512k      $simple   NCCL_BUFFSIZE=2097152
slices-1        $simple   RONDO_SIMPLE_SLICES=1
slices-4        $simple   RONDO_SIMPLE_SLICES=4
copy-rows-4     $simple   RONDO_COPY_ROWS=4
sum-rows-4      $simple   RONDO_SUM_ROWS=4
ll-lines-1      $ll       RONDO_LL_LINES=1
ll-lines-2      $ll       RONDO_LL_LINES=2
ll-slot-1024    $ll       RONDO_LL_SLOT_LINES=1024
line-slices-1   $ll,$ll128 RONDO_LINE_SLICES=1
ll128-pairs-1   $ll128    RONDO_LL128_PAIRS=1
ll128-sums-2    $ll128    RONDO_LL128_SUM_PAIRS=2
ll128-slot-512  $ll128    RONDO_LL128_SLOT_LINES=512
nvls-rows-4     $nvls     RONDO_NVLS_ROWS=4
nvls-slot-64k   $nvls     RONDO_NVLS_SLOT=65536
nvls-ctas-32    $nvls     RONDO_NVLS_CTAS=32
"

check_table() {
  local stages known
  known=$(PYTHONPATH=tests/gpu/check python3 -c \
    'import fast; print(*(stage.name for stage in fast.stages()), sep="\n")')
  while read -r row stages value; do
    [ -n "$row" ] || continue
    for stage in ${stages//,/ }; do
      grep -qxF "$stage" <<<"$known" || { echo "$row: set B has no stage $stage" && return 1; }
    done
    case $value in
      '' | NCCL_BUFFSIZE=*) ;;
      *) grep -q "^#ifndef ${value%=*}$" kernels/cuda/shapes.h ||
        { echo "$row: kernels/cuda/shapes.h has no ${value%=*}" && return 1; } ;;
    esac
    echo "$row $stages $value"
  done <<<"$table"
}

if [ "${LIST:-0}" != 0 ]; then
  check_table
  exit
fi
arch=$(timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
  head -n 1 | tr -d .) || arch=''
[ -n "$arch" ] || { echo "no GPU: nvidia-smi finds none on this machine" >&2 && exit 77; }
out=${OUT:-gpu-sweep}
mkdir -p "$out"
: >"$out/sweep.txt"
while read -r row stages value; do
  [ -n "$row" ] || continue
  [ $# -eq 0 ] || [[ " $* " == *" $row "* ]] || continue
  build=build/sweep/as-it-is define='' variable=RONDO_SWEPT=$row
  case $value in
    NCCL_*) variable=$value ;;
    RONDO_*) build=build/sweep/$row define=-D$value ;;
  esac
  mkdir -p "$out/$row"
  # No command in it may read the table.
  { cmake --preset cuda -B "$build" -DRONDO_PORTABLE=ON "-DCMAKE_CUDA_ARCHITECTURES=$arch-real" \
      "-DCMAKE_CXX_FLAGS=$define" "-DCMAKE_CUDA_FLAGS=$define" &&
    cmake --build "$build" -j "$(nproc)" --target rondo_shared nccl_shared rondo micro_device; } \
    </dev/null >"$out/$row/build.txt" 2>&1 || {
    echo "$row ($value): the build failed, see $out/$row/build.txt" | tee -a "$out/sweep.txt"
    continue
  }
  env "$variable" ONLY="$stages" OUT="$out/$row" bash tests/gpu/check.sh --built "$build" B \
    </dev/null >"$out/$row/said.txt" 2>&1 || true
  { echo "== $row $value" && sed '/^$/q' "$out/$row/roof.txt" 2>/dev/null ||
    tail -n 3 "$out/$row/said.txt"; } | tee -a "$out/sweep.txt"
done <<<"$table"
