#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command in a guest with RDMA devices: qemu without KVM, Debian's kernel with its soft-RoCE
# (rdma_rxe), and this machine's files, which the guest can read and not change.
#
#   guest.sh [--wires N] [--machine FILE] [--limit SECONDS] [--share FOLDER] [--keep NAME]...
#            [--] COMMAND...
#
#   --wires N       wire k joins rxe<2k> (10.77.k.1) and rxe<2k+1> (10.77.k.2); packets between
#                   the two really cross it. Default: 1
#   --machine FILE  what qemu is told of another machine than a PC without NUMA nodes: its
#                   arguments, any number a line; lines with # are comments
#   --limit SECONDS of the whole guest. Default: 120
#   --share FOLDER  the command may write there; whatever else it writes is lost
#   --keep NAME     an environment variable that the command keeps
#
# Standard output and error are the command's, byte for byte, and so is the exit status. Others:
#   77   not run: qemu or the kernel cannot be had here, and why
#   124  the limit
#   125  the guest died (a panic, an oops), or did not come up; its console is printed
# The kernel and its modules are fetched once into build/rdma-guest (guest_kernel.sh): about 70 MB,
# unpacked 0.5 GB. No root, no kernel module of this machine's, no installation of a kernel.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
cache=$(readlink -f "$here/../..")/build/rdma-guest
wires=1 limit=120 share='' kept=(PATH HOME LANG) machine=(-machine pc)

usage() { sed -n '5,23s/^# \{0,1\}//p' "$0" >&2; exit 125; }
while [ $# -gt 0 ]; do
  case $1 in
    --wires) wires=$2; shift 2 ;;
    --machine)
      [ -r "$2" ] || { echo "--machine $2: there is no such file" >&2; exit 125; }
      read -r -d '' -a machine < <(sed '/^#/d' "$2") || true
      shift 2
      ;;
    --limit) limit=$2; shift 2 ;;
    --share) share=$(readlink -f "$2"); shift 2 ;;
    --keep) kept+=("$2"); shift 2 ;;
    --) shift; break ;;
    -*) usage ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || usage

skip() { echo "skipped: no guest with RDMA devices: $1" >&2; exit 77; }
[ "$(uname -m)" = x86_64 ] || skip "the guest is x86-64, this machine is $(uname -m)"
for program in qemu-system-x86_64 busybox cpio xz depmod modprobe python3 objcopy; do
  command -v "$program" >/dev/null || skip "$program is missing (.ci/install.sh --tests)"
done
mkdir -p "$cache"
(
  flock 9
  [ -e "$cache/ready" ] || bash "$here/guest_kernel.sh" "$cache" >"$cache/log" 2>&1
) 9>"$cache/lock" || skip "no kernel for it: $(tail -n 1 "$cache/log")"

work=$(mktemp -d)
jobs_left() { jobs -pr | xargs -r kill -9 2>/dev/null || true; }
trap 'jobs_left; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Files that the guest reads and writes: control/run, control/status.
mkdir "$work/control"
{
  printf 'wires=%q modules=%q shared=%q\n' "$wires" "$cache/root/lib/modules" "$share"
  cat "$here/guest_setup.sh"
} >"$work/control/setup"
{
  for name in "${kept[@]}"; do
    [ -z "${!name+set}" ] || printf 'export %s=%q\n' "$name" "${!name}"
  done
  printf 'cd %q\nexec' "$PWD"
  printf ' %q' "$@"
  echo
} >"$work/control/run"

# A share: `share TAG PATH OPTIONS`.
qemu=(qemu-system-x86_64)
share() {
  qemu+=(-fsdev "local,id=$1,path=$2,security_model=none,multidevs=remap$3"
         -device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}
# The guest writes its output to a file here, and `tail` follows it.
port() {
  : >"$work/$1"
  qemu+=(-chardev "file,id=$1,path=$work/$1" -device "virtserialport,chardev=$1,name=$1")
}
# Two processors: with one, two polling ranks alternate in time slices of one clock tick. This
# emulator lacks AVX-512. HPET: the guest measures the TSC's rate at boot, wrongly on a busy
# machine, and then its time runs several times too fast. An oops ends the guest as a panic does,
# and a panic ends qemu.
qemu+=(-accel tcg,thread=multi,tb-size=512 -cpu max -smp 2 -m 2048
       -nodefaults -no-user-config -no-reboot -display none -monitor none
       -kernel "$cache/vmlinux" -initrd "$cache/initrd.cpio" -serial "file:$work/console"
       -device virtio-rng-pci -device virtio-serial-pci)
kernel_line="console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr clocksource=hpet"
kernel_line+=" no_timer_check cryptomgr.notests random.trust_cpu=on net.ifnames=0"
qemu+=(-append "$kernel_line")
share root / ,readonly=on
share control "$work/control" ''
[ -z "$share" ] || share shared "$share" ''
port out
port err
qemu+=("${machine[@]}")  # last: devices without a bus name take the first bus that accepts them

timeout -k 5 "$limit" "${qemu[@]}" </dev/null >"$work/qemu" 2>&1 &
guest=$!
tail -q -s 0.1 -c +1 -f --pid=$guest "$work/out" 2>/dev/null &
tail -q -s 0.1 -c +1 -f --pid=$guest "$work/err" >&2 2>/dev/null &
ended=0
wait $guest || ended=$?
wait  # until all output is printed

if [ -s "$work/control/status" ]; then exit "$(cat "$work/control/status")"; fi
if [ $ended = 124 ] || [ $ended = 137 ]; then
  echo "the guest was stopped after $limit seconds; its console ends:" >&2
else
  echo "the guest ended without a status (qemu's is $ended); its console ends:" >&2
fi
cat "$work/qemu" >&2
tail -n 40 "$work/console" >&2 || true
[ $ended = 124 ] || [ $ended = 137 ] || exit 125
exit 124
