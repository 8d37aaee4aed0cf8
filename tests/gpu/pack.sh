#!/usr/bin/env bash
# Makes a bundle of binaries for machines with a GPU and no compiler: gpu-pack.tar.gz, sm_90 alone.
# Libraries that such a machine may lack lie beside the binaries, which look there first.
#   bash tests/gpu/pack.sh && scp gpu-pack.tar.gz ...; there: bash gpu-pack/check.sh --packed
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v nvcc >/dev/null || {
  echo "no nvcc: the bundle is built where CUDA's compiler is" >&2
  exit 1
}
cmake --preset cuda -DCMAKE_CUDA_ARCHITECTURES=90-real -DCMAKE_BUILD_RPATH='$ORIGIN' \
  >/dev/null
cmake --build --preset cuda --target gpu_tests gpu_process_tests gpu_probe rondo_shared \
  nccl_shared rondo nccl_contestant -j "$(nproc)" | tail -n 1

pack=build/gpu-pack
rm -rf $pack
mkdir -p $pack
cp build/cuda/bin/{gpu_tests,gpu_process_tests,gpu_probe,rondo,nccl_contestant} $pack
cp -L build/cuda/lib/libnccl.so.2 build/cuda/lib/librondo.so.1 $pack
cp -r tests/gpu/check.sh tests/gpu/torch_check.py tests/gpu/clients \
  bench/beside/beside.py $pack
# All but what belongs to the C library and the driver.
for binary in $pack/gpu_process_tests $pack/rondo $pack/libnccl.so.2; do
  ldd $binary | awk '$3 ~ /^\// {print $3}'
done | sort -u | grep -vE '/(libc|libm|libdl|librt|libpthread|libcuda|ld-linux[^/]*)\.so' |
  while read -r library; do cp -Ln "$library" $pack; done
strip $pack/{gpu_tests,gpu_process_tests,gpu_probe,rondo,nccl_contestant} $pack/*.so*
tar -C build -czf gpu-pack.tar.gz gpu-pack
size=$(stat -c %s gpu-pack.tar.gz)
[ "$size" -lt $((48 << 20)) ] || { echo "the bundle has $size bytes, at most 48 MiB" >&2; exit 1; }
echo "gpu-pack.tar.gz: $size bytes"
