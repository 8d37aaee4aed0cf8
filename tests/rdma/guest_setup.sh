# SPDX-License-Identifier: Apache-2.0
# Runs in the guest once this machine's files are mounted: devices, wires, then the command.
# guest.sh prepends the variables `wires`, `modules` and `shared` to this script.
busy() { /run/busybox "$@"; }
fatal() { echo "guest: $1"; busy poweroff -f; }
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

busy mount -t proc proc /proc
busy mount -t sysfs sys /sys
busy mkdir -p /dev/shm /dev/pts
busy mount -t tmpfs -o mode=1777 shm /dev/shm
busy mount -t devpts -o mode=620,ptmxmode=666 pts /dev/pts
busy ln -s /proc/self/fd /dev/fd
for number_name in 0/stdin 1/stdout 2/stderr; do
  busy ln -s "fd/${number_name%/*}" "/dev/${number_name#*/}"
done
busy mkdir -p /lib/modules
busy mount --bind "$modules" /lib/modules  # for tc netem and others
if [ -n "$shared" ]; then
  busy mkdir -p "$shared"
  busy mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=mmap shared "$shared" ||
    fatal "$shared cannot be mounted"
fi
busy hostname rdma-guest
ulimit -l unlimited
ulimit -c 0
ip link set lo up
# The usual 1000 overflows when one end sends a few MiB at once: losses that no real wire has.
echo 100000 >/proc/sys/net/core/netdev_max_backlog
echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad

# Both ends of a wire are addresses of this one guest. To make packets between them cross the wire,
# locally sent packets use a routing table that knows only the wire; arriving packets use the table
# of local addresses.
ip rule add pref 1000 lookup local
ip rule del pref 0
for wire in $(busy seq 0 $((wires - 1))); do
  a=veth$((2 * wire)) b=veth$((2 * wire + 1)) net=10.77.$wire
  ip link add "$a" type veth peer name "$b"
  for where in all default "$a" "$b"; do
    for setting in accept_local=1 rp_filter=0 arp_ignore=1 arp_announce=2; do
      echo "${setting#*=}" >"/proc/sys/net/ipv4/conf/$where/${setting%=*}"
    done
  done
  ip -batch - <<IP
addr add $net.1/24 dev $a noprefixroute
addr add $net.2/24 dev $b noprefixroute
link set $a mtu 4200 up
link set $b mtu 4200 up
rule add pref $((10 + 2 * wire)) to $net.2 iif lo lookup $((100 + 2 * wire))
rule add pref $((11 + 2 * wire)) to $net.1 iif lo lookup $((101 + 2 * wire))
route add $net.2 dev $a src $net.1 table $((100 + 2 * wire))
route add $net.1 dev $b src $net.2 table $((101 + 2 * wire))
IP
  rdma link add "rxe$((2 * wire))" type rxe netdev "$a" || fatal "no soft-RoCE device"
  rdma link add "rxe$((2 * wire + 1))" type rxe netdev "$b" || fatal "no soft-RoCE device"
done

for port in /sys/class/virtio-ports/vport*; do
  case $(busy cat "$port/name") in
    out) out=/dev/${port##*/} ;;
    err) err=/dev/${port##*/} ;;
  esac
done
busy setsid bash /run/guest/run </dev/null >"$out" 2>"$err"
echo $? >/run/guest/new
busy mv /run/guest/new /run/guest/status
busy sync
busy umount -a -t 9p 2>/dev/null
busy poweroff -f
