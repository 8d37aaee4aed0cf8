#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_device_api.sh <libnccl.so.2>: device_user.cu compiles and links with our headers and library
# alone, as C++ and, where there is nvcc, as CUDA, and runs on host memory. A name of the device API
# that we lack does not compile, and the compiler says why.
set -euo pipefail
library=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/nccl/include" "$work/nccl/lib"  # as where NCCL is installed
cp "$here"/../../api/nccl*.h "$work/nccl/include/"
ln -s "$(readlink -f "$library")" "$work/nccl/lib/libnccl.so.2"
ln -s "$(dirname "$(readlink -f "$library")")/librondo.so.1" "$work/nccl/lib/"
ln -s libnccl.so.2 "$work/nccl/lib/libnccl.so"
export LD_LIBRARY_PATH=$work/nccl/lib RONDO_DEVICE=host
flags=(-I"$work/nccl/include" -L"$work/nccl/lib" -lnccl)

"${CXX:-c++}" -x c++ -std=c++17 -Wall -Wextra -Werror -DRONDO_NO_CUDA_HEADERS \
  "$here/device_user.cu" "${flags[@]}" -o "$work/as_cxx"
timeout 300 "$work/as_cxx"

if ! command -v nvcc >/dev/null; then
  echo "not tried: kernels, as there is no nvcc"
  exit
fi
nvcc -arch=sm_90 -std=c++17 -Werror all-warnings "$here/device_user.cu" "${flags[@]}" \
  -o "$work/as_cuda"
timeout 300 "$work/as_cuda"
lacks() {  # lacks NAME STATEMENT
  if nvcc -arch=sm_90 -std=c++17 "-DNOT_THERE=$2" -I"$work/nccl/include" -c \
      "$here/device_user.cu" -o "$work/not_there" >"$work/log" 2>&1; then
    echo "compiled: $2"
    exit 1
  fi
  grep -q "$1 is not in Rondo's nccl_device.h" "$work/log" || { cat "$work/log"; exit 1; }
}
lacks ncclCftBarrierSession 'ncclCftBarrierSession<ncclCoopCta> session{}'
lacks ncclMultimemReduceSum 'ncclMultimemReduceSum(memory)'
