#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds NVIDIA's NCCL (2.30 or later) from a checkout of its sources, for sm_90 and with rings of
# all-reduces of float32 only, so that it fits into the bundle of pack.sh: then the stages nccl.* of
# check.sh measure what NCCL's own rings reach a CTA among ranks of one device.
#   git clone --depth 1 --branch v2.30.7-1 https://github.com/NVIDIA/nccl /tmp/nccl
#   bash tests/gpu/small_nccl.sh /tmp/nccl
# Leaves build/small-nccl/lib/libnccl.so.2.
set -euo pipefail
sources=$(cd "${1:?a checkout of NCCL: bash tests/gpu/small_nccl.sh FOLDER}" && pwd)
cd "$(dirname "$0")/../.."
command -v nvcc >/dev/null ||
  { echo "no nvcc: NCCL is built where CUDA's compiler is" >&2 && exit 1; }
[ -e "$sources/src/device/generate.py" ] ||
  { echo "$sources has no sources of NCCL" >&2 && exit 1; }
nvcc=$(readlink -f "$(command -v nvcc)")
mkdir -p build
make -C "$sources" -j "${JOBS:-$(nproc)}" src.build "BUILDDIR=$PWD/build/small-nccl" \
  "CUDA_HOME=${nvcc%/bin/nvcc}" 'NVCC_GENCODE=-gencode=arch=compute_90,code=sm_90' \
  'ONLY_FUNCS=AllReduce Sum f32 RING *' >build/small-nccl.txt 2>&1 || {
  tail -n 20 build/small-nccl.txt >&2
  exit 1
}
ls -lL build/small-nccl/lib/libnccl.so.2
