#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a bundle of programs for machines with a GPU and without a compiler or our libraries:
# build/gpu-pack.tar.gz, from the preset cuda-90 (sm_90 only). Everything but glibc is linked
# statically, to avoid conflicts with PyTorch's libstdc++ or libcrypto; fails if a program needs
# anything else.
#   bash tests/gpu/pack.sh
#   BEFORE=DIR bash tests/gpu/pack.sh   with DIR/bin/rondo, the preset cuda-90 of an earlier commit:
#                                       set NEXT measures LL push beside it
#   there: tar xf gpu-pack.tar.gz && bash gpu-pack/check.sh --packed A
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v nvcc >/dev/null || {
  echo "no nvcc: the bundle is built where CUDA's compiler is" >&2
  exit 1
}
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
limit=$((48 << 20)) from=build/cuda-90 pack=build/gpu-pack
programs=(gpu_tests gpu_process_tests gpu_probe rondo nccl_contestant micro_device
  device_api_check moe_check)
cmake --preset cuda-90 >/dev/null
cmake --build --preset cuda-90 -j "${JOBS:-$(nproc)}" --target "${programs[@]}" rondo_shared \
  nccl_shared rondo_watch device_api_check_theirs | tail -n 1
for version in 2.28.9 2.32.3; do  # with NVIDIA's headers
  if [ -e "$from/bin/device_api_check_$version" ]; then
    programs+=("device_api_check_$version")
  else
    echo "without device_api_check_$version: its headers are not in the cache" \
      "(tests/abi/fetch_nccl.sh $version)"
  fi
done

rm -rf $pack build/gpu-pack.tar.gz
mkdir -p $pack/bin $pack/lib
cp "${programs[@]/#/$from/bin/}" $pack/bin
cp -L $from/lib/librondo.so.1 $from/lib/libnccl.so.2 $from/lib/librondo-watch.so $pack/lib
strip $pack/bin/* $pack/lib/*
cp -r tests/gpu/{check,clients} $pack
small=build/small-nccl/lib/libnccl.so.2 # of small_nccl.sh, if it was built
if [ -e $small ]; then
  mkdir $pack/theirs
  cp -L $small $pack/theirs
  strip $pack/theirs/*
fi
if [ -n "${BEFORE:-}" ]; then
  mkdir -p $pack/before/bin
  cp "$BEFORE/bin/rondo" $pack/before/bin
  strip $pack/before/bin/*
fi
mkdir $pack/topology $pack/gpu
cp tests/topology/*.xml $pack/topology
cp tests/gpu/two-hosts.xml $pack/gpu
cp tests/gpu/check.sh tests/gpu/{torch_check,symmetric_memory,watch_check}.py \
  bench/beside/beside.py $pack
find $pack -name __pycache__ -exec rm -r {} +
git describe --always --dirty --abbrev=12 >$pack/commit 2>/dev/null || rm -f $pack/commit

# Libraries that glibc and this bundle provide; the driver is opened by name.
theirs='libc libm libdl librt libpthread ld-linux-x86-64 ld-linux-aarch64'
wrong=0
for file in $pack/bin/* $pack/lib/*; do
  for library in $(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    [[ " $theirs " == *" ${library%%.so*} "* || -e $pack/lib/$library ]] ||
      { echo "$file needs $library" >&2 && wrong=1; }
  done
  if ldd "$file" | grep 'not found' >&2; then wrong=1; fi
  case $(readelf -d "$file" | grep -E '\((RPATH|RUNPATH)\)') in
    *"[/"* | *":/"*) echo "$file looks for libraries in a folder of this machine" >&2 && wrong=1 ;;
  esac
done
[ $wrong -eq 0 ] || exit 1
glibc=$(readelf -V $pack/bin/* $pack/lib/* | grep -oP 'GLIBC_\K2\.\d+' | sort -V | tail -n 1)

tar -C build -czf build/gpu-pack.tar.gz gpu-pack
size=$(stat -c %s build/gpu-pack.tar.gz)
echo "build/gpu-pack.tar.gz: $size bytes, at most $limit; needs glibc $glibc and nothing else"
[ "$size" -lt $limit ]
