#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares our nccl.h with NVIDIA's of 2.28.9 and 2.32.3, and our nccl_device.h with NVIDIA's of
# 2.32.3, and compiles them in every supported way.
# Exits 77 (skipped), with the reason, if NVIDIA's headers or the CUDA headers that they include are
# unavailable.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
cxx=${CXX:-c++}
cc=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nvcc=$(command -v nvcc || true)
for candidate in "${CUDA_HOME:-}/include" \
    "${nvcc:+$(dirname "$(readlink -f "${nvcc:-/}")")/../include}" \
    /usr/local/cuda/include /usr/include; do
  if [ -f "$candidate/cuda_runtime.h" ]; then cuda=$candidate; break; fi
done

cat >"$work/use.c" <<'C'
ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
ncclCollConfig_t call = NCCL_COLLCONFIG_INITIALIZER;
ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
ncclEncryptionConfig_t encryption = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
rondoCommOptions_t options = RONDO_COMM_OPTIONS_INITIALIZER;
ncclDataType_t type = rondoInt16;
cudaStream_t stream;
ncclDevCommRequirements_t requirements = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
ncclDevComm_t device;
C
try() {  # try <what> <compiler> <flags and includes...>
  local what=$1; shift
  "$@" -Wall -Wextra -Werror -pedantic -I"$root/api" -include rondo.h -include nccl_device.h \
    -c "$work/use.c" -o "$work/use.o"
  echo "compiles: $what"
}
try "C11, no CUDA headers" "$cc" -x c -std=c11
try "C99, no CUDA headers" "$cc" -x c -std=c99 -DRONDO_NO_CUDA_HEADERS
try "C++11, no CUDA headers" "$cxx" -x c++ -std=c++11
try "C++20, no CUDA headers" "$cxx" -x c++ -std=c++20
if [ -z "${cuda:-}" ]; then
  echo "skipped: no CUDA headers, which NVIDIA's nccl.h includes (set CUDA_HOME)"
  exit 77
fi
try "C11 with CUDA headers" "$cc" -x c -std=c11 -isystem "$cuda"
try "C++17 after CUDA headers" "$cxx" -x c++ -std=c++17 -isystem "$cuda" -include cuda_runtime.h
try "C++17 before CUDA headers" "$cxx" -x c++ -std=c++17 -isystem "$cuda" -DRONDO_NO_CUDA_HEADERS \
  -include "$root/api/nccl.h" -include cuda_runtime.h

describe() {  # describe <function> <folder of nccl.h> [options]; NCCL_OS_LINUX: NVIDIA's lacks one
  "$cxx" -std=c++17 -Wno-deprecated-declarations -DNCCL_OS_LINUX -DRONDO_NO_CUDA_HEADERS \
    -isystem "$cuda" -I. -isystem "$2" -include "$2/nccl.h" "${@:3}" -DFACTS="$1" -c facts.cc \
    -o "$work/$1.o"
}
for version in 2.28.9 2.32.3; do
  if ! dir=$(./fetch_nccl.sh "$version" 2>"$work/why"); then
    echo "skipped: $(cat "$work/why")"
    exit 77
  fi
  code=$([ "$version" = 2.28.9 ] && echo 22809 || echo 23203)
  device=()
  [ "$code" = 22809 ] || device=(-include "$dir/nccl_device.h" -DDEVICE_FACTS)
  describe "facts_of_$code" "$dir" "${device[@]}"
done
describe facts_of_ours "$root/api" -include "$root/api/nccl_device.h" -DDEVICE_FACTS
"$cxx" -std=c++17 -I. compare_headers.cc "$work"/facts_of_*.o -o "$work/compare"
"$work/compare"
