#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs in the guest of guest.sh: loads the cards' drivers, then runs `rondo topo` and hwloc.
#
#   in_guest.sh FOLDER_OF_PROGRAMS FOLDER
set -euo pipefail
rondo=$1/rondo
cd "$2"
modprobe -a e1000e virtio_net
for card in /sys/class/net/eth*; do
  ip link set "${card##*/}" up
  # The kernel's name, the address, and the PCI device, which for virtio is one level up.
  device=$(readlink -f "$card/device")
  case $device in */virtio*) device=${device%/*} ;; esac
  echo "${card##*/} $(cat "$card/address") ${device##*/}"
done >cards
for card in /sys/class/net/eth*; do  # an interface has a speed once it is up
  for ((tries = 0; tries < 100; ++tries)); do
    [ "$(cat "$card/carrier")" != 1 ] || break
    sleep 0.1
  done
done
# An RDMA port has the place of its interface: that of a2.
rdma link add rxe_a2 type rxe netdev "$(awk '$2 ~ /a2$/ { print $1 }' cards)"
"$rondo" topo >text
"$rondo" topo --json >json
"$rondo" topo --matrix >matrix
"$rondo" topo --write-xml nccl.xml
lstopo --of xml >hwloc.xml
