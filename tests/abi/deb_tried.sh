#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs in a bare Debian with the packages in /tmp: installs, uses and removes them.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
install() { apt-get install -y -qq --no-install-recommends "$@" >/tmp/apt.log; }
# PACKAGE...: removes them; none of their files stays.
purge() {
  local file
  dpkg -L "$@" | while read -r file; do
    if ! [ -d "$file" ]; then echo "$file"; fi
  done >/tmp/files
  apt-get purge -y -qq "$@" >/dev/null
  while read -r file; do
    ! [ -e "$file" ] || { echo "left after removal: $file"; exit 1; }
  done </tmp/files
}
install gcc libc6-dev pkg-config /tmp/librondo1_*.deb /tmp/librondo-dev_*.deb /tmp/rondo-tools_*.deb
rondo --version
[ -e /usr/share/man/man1/rondo-run.1 ]
[ -e /usr/share/bash-completion/completions/rondo ]
[ -e /usr/share/zsh/vendor-completions/_rondo ]
[ -e /usr/share/fish/vendor_completions.d/rondo.fish ]
[ -s /usr/share/doc/librondo1/copyright ]
[ -e /usr/include/rondo/nccl_device.h ]
cc /usr/share/rondo/examples/hello_allreduce.c $(pkg-config --cflags --libs rondo) -o /tmp/hello
rondo run -n 2 -- /tmp/hello
rondo preload | grep '^LD_PRELOAD=/usr/lib/.*/rondo/libnccl.so.2$' >/dev/null
all_reduce_perf --ranks 2 -b 1K -e 1K -n 5 --no-progress |
  grep 'Out of bounds values : 0 OK' >/dev/null
if ls /tmp/librondo-cuda1_*.deb >/dev/null 2>&1; then
  install /tmp/librondo-cuda1_*.deb
  library=$(rondo preload)
  library=${library#LD_PRELOAD=}
  [[ $library == /usr/lib/*/rondo-cuda/libnccl.so.2 ]] || { echo "preload names $library"; exit 1; }
  bash /tmp/check_exports.sh "$library" libnccl.so.2
  cc /tmp/cuda_library.c $(pkg-config --cflags rondo) -ldl -o /tmp/cuda_library
  /tmp/cuda_library "$library"
  rondo run --preload -n 2 -- /tmp/hello
  purge librondo-cuda1
  [ ! -e "$(dirname "$library")" ] || { echo "left after removal: $(dirname "$library")"; exit 1; }
  rondo preload | grep '/rondo/libnccl.so.2$' >/dev/null
fi
purge rondo-tools librondo-dev librondo1
for left in /usr/bin/rondo /usr/bin/all_reduce_perf /usr/include/rondo /usr/share/rondo; do
  [ ! -e $left ] || { echo "left after removal: $left"; exit 1; }
done
echo "the packages were installed, used and removed"
