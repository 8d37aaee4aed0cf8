#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs in a bare Debian with the packages in /tmp: installs, uses and removes them.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends gcc libc6-dev pkg-config /tmp/*.deb >/tmp/apt.log
rondo --version
[ -e /usr/share/man/man1/rondo-run.1 ]
[ -e /usr/share/bash-completion/completions/rondo ]
[ -e /usr/share/zsh/vendor-completions/_rondo ]
[ -e /usr/share/fish/vendor_completions.d/rondo.fish ]
[ -s /usr/share/doc/librondo1/copyright ]
cc /usr/share/rondo/examples/hello_allreduce.c $(pkg-config --cflags --libs rondo) -o /tmp/hello
rondo run -n 2 -- /tmp/hello
rondo preload | grep -q '^LD_PRELOAD=/usr/lib/.*/rondo/libnccl.so.2$'
all_reduce_perf --ranks 2 -b 1K -e 1K -n 5 --no-progress | grep -q 'Out of bounds values : 0 OK'
apt-get purge -y -qq rondo-tools librondo-dev librondo1 >/dev/null
for left in /usr/bin/rondo /usr/bin/all_reduce_perf /usr/include/rondo /usr/share/rondo; do
  [ ! -e $left ] || { echo "left after removal: $left"; exit 1; }
done
echo "the packages were installed, used and removed"
