#!/usr/bin/env bash
# All that runs in one boot of the guest (guest.sh): the tests, then what `rondo doctor` says with
# devices, with a port down, and without the library.
#
#   all.sh FOLDER_OF_PROGRAMS
set -euo pipefail
bin=$1
"$bin/rdma_tests" --gtest_brief=1

doctor() { "$bin/rondo" doctor >/tmp/doctor 2>&1 || true; }
said() {
  grep -q "$1" /tmp/doctor || {
    echo "FAILED: rondo doctor does not say: $1"
    cat /tmp/doctor
    exit 1
  }
  echo "ok: $1"
}
doctor
said "^ok .*rxe1:1 (RoCE, ACTIVE.*GID 1 is 10.77.0.2"
said "^ok .*locked memory .*unlimited"
ip link set veth1 down
doctor
said "^warning .*rxe1:1 is DOWN"
(ulimit -l 1024 && doctor)
said "^problem .*locked memory .*1 MiB: RDMA cannot register buffers"
NCCL_IB_HCA=mlx5 doctor
said "^problem .*NCCL_IB_HCA='mlx5': mlx5 fits none of this host's ports: rxe0:1"
# The files are this machine's, under a layer of the guest's own: nothing happens to them.
mv /etc/libibverbs.d /etc/libibverbs.gone
doctor
said "^problem .*the kernel has rxe0, but libibverbs does not offer it"
rm -f "$(ldconfig -p | awk '/libibverbs.so.1 / { print $NF; exit }')"
doctor
said "^problem .*cannot be used: libibverbs.so.1 cannot be loaded.*install libibverbs1"
