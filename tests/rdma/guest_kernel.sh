#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the files that guest.sh boots, in FOLDER: vmlinux, initrd.cpio, the modules, and `ready` at
# the end. If it fails, its last output line gives the reason.
#
#   guest_kernel.sh FOLDER
#
# The kernel is the one that Debian's linux-image-amd64 depends on now (the cloud kernel has neither
# rxe nor 9p), fetched by apt-get and unpacked, not installed.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
cd "$1"
give_up() { echo "$1"; exit 1; }

rm -rf root package initrd ready
mkdir root package initrd
name=$(apt-cache depends linux-image-amd64 2>/dev/null |
  awk '/Depends: linux-image-/ { print $2; exit }')
[ -n "$name" ] || give_up "apt-get knows no linux-image-amd64 (apt-get update)"
(cd package && apt-get -qq -o APT::Sandbox::User=root download "$name") ||
  give_up "apt-get cannot fetch the package $name"
dpkg -x package/*.deb root
rm -rf package
[ -d root/lib/modules ] || { mkdir -p root/lib; mv root/usr/lib/modules root/lib/; }
version=$(ls root/lib/modules)
depmod -b root "$version"

# Extracted from its bzImage here: in an emulated processor that takes three times as long as the
# rest of the boot. The offsets are those of the kernel's boot protocol.
python3 - "root/boot/vmlinuz-$version" >payload <<'PYTHON'
import struct, sys
image = open(sys.argv[1], "rb").read()
offset, length = struct.unpack_from("<II", image, 0x248)
start = (image[0x1F1] + 1) * 512 + offset
sys.stdout.buffer.write(image[start:start + length])
PYTHON
case $(od -An -tx1 -N4 payload | tr -d ' ') in
  fd377a58) xz -dc --single-stream payload >vmlinux ;;
  28b52ffd) zstd -qdc payload >vmlinux || true ;;
  *) give_up "the kernel of $name is packed in a way that is not known here" ;;
esac
rm -f payload
[ "$(od -An -tx1 -N4 vmlinux | tr -d ' ')" = 7f454c46 ] || give_up "$name holds no ELF kernel"

# The first root file system: busybox, and the modules for this machine's files and the devices.
mkdir -p initrd/bin initrd/modules
cp "$(command -v busybox)" initrd/bin/busybox
for module in virtio_pci 9pnet_virtio 9p overlay virtio_console virtio_rng ib_uverbs rdma_rxe veth
do
  modprobe -d root -S "$version" --show-depends "$module" | awk '$1 == "insmod" { print $2 }'
done | awk '!seen[$0]++' | while read -r file; do
  base=$(basename "$file")
  base=${base%.xz}
  case $file in
    *.xz) xz -dc "$file" >"initrd/modules/$base" ;;
    *) cp "$file" "initrd/modules/$base" ;;
  esac
  # A module without signature and type information loads twice as fast.
  objcopy --strip-debug -R .BTF "initrd/modules/$base"
  echo "$base"
done >initrd/modules/order
cp "$here/guest_init.sh" initrd/init
chmod 755 initrd/init
(cd initrd && find . | cpio -o -H newc --quiet) >initrd.cpio
rm -rf initrd
touch ready
