#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# The first process of the guest: loads modules, mounts a memory overlay over this machine's files
# that takes all writes, and continues with guest_setup.sh there.
export PATH=/bin
b=/bin/busybox
fatal() { echo "guest: $1"; $b poweroff -f; }

$b mkdir -p /proc /dev /lower /memory /root
$b mount -t proc proc /proc
$b mount -t devtmpfs dev /dev
for module in $($b cat /modules/order); do
  $b insmod "/modules/$module" || fatal "the module $module does not load"
done
$b mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose root /lower ||
  fatal "the files of the host cannot be mounted"
$b mount -t tmpfs memory /memory
$b mkdir /memory/upper /memory/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work root /root ||
  fatal "no overlay"
$b mkdir -p /root/run /root/proc /root/sys /root/dev /root/tmp
$b mount -t tmpfs run /root/run
$b mkdir /root/run/guest
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=131072,cache=none control /root/run/guest ||
  fatal "the control files cannot be mounted"
$b cp /bin/busybox /root/run/busybox
$b mount --move /dev /root/dev
$b umount /proc
exec $b switch_root /root /bin/bash /run/guest/setup
