#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What people start jobs with, on two "hosts": Slurm (slurmctld and two slurmd), Open MPI, MPICH and
# torchrun start a C program and a PyTorch script, with the commands of docs/start/multi-host.md.
#
#   two_hosts.sh HELLO_ALLREDUCE [PYTHON]    PYTHON: of an environment with torch and Rondo's wheel
#   two_hosts.sh                             those of build/release; installs what is missing
#
# A host is a network namespace with a host name and /etc/hosts of its own; ssh's place takes a
# script that enters it. Exit status 77: not permitted here.
set -uo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)

prepare() {
  local venv=build/torch-venv
  .ci/install.sh --launchers && .ci/install.sh --torch || return
  [ -x $venv/bin/pip ] || python3 -m venv $venv
  $venv/bin/pip install -q torch==2.13.0 numpy && .ci/wheel.sh &&
    $venv/bin/pip install -q --force-reinstall --no-deps build/wheels/rondo_ccl-*.whl
}
if [ $# = 0 ]; then
  cd "$here/.." && prepare || exit 1
  set -- build/release/bin/hello_allreduce "$PWD/build/torch-venv/bin/python"
fi
hello=$(realpath "$1")
python=${2:-}
source "$here/net/hosts.sh"
work=$(mktemp -d)
failures=0

cleanup() {
  local file
  for file in "$work"/pid.*; do
    [ ! -s "$file" ] || kill "$(cat "$file")" 2>/dev/null || true
  done
  remove_hosts
  sleep 1  # slurmctld writes its state
  rm -rf "$work"
}
trap cleanup EXIT

make_hosts 2 10.213.9
printf '127.0.0.1 localhost\n10.213.9.1 node1\n10.213.9.2 node2\n' >"$work/hosts"
cat >"$work/on" <<EOF
#!/bin/sh
# on HOST COMMAND...: in the namespace of node1 or node2. Also as ssh's place: options come first.
while case \$1 in -*) true ;; *) false ;; esac; do shift; done
space=$net-1
[ "\$1" = node1 ] || space=$net-2
host=\$1
shift
# ip netns exec would hide the control groups, which slurmd needs.
exec nsenter --net="/run/netns/\$space" unshare --uts --mount sh -c \
  'hostname "\$0" && mount --bind $work/hosts /etc/hosts && exec sh -c "\$*"' "\$host" "\$@"
EOF
chmod +x "$work/on"
unset MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NCCL_HOSTID
export RONDO_SECRET=0123456789abcdef0123456789abcdef NCCL_DEBUG=VERSION OMP_NUM_THREADS=1

# expect NAME RANKS HOSTS COMMAND...: on node1. Every rank has the right sum, and a line says who
# serves RANKS ranks on HOSTS hosts.
expect() {
  local name=$1 ranks=$2 hosts=$3 status=0 rank sum=$(($2 * ($2 - 1) / 2))
  shift 3
  timeout 120 "$work/on" node1 "$@" >"$work/out" 2>&1 || status=$?
  for ((rank = 0; rank < ranks; rank++)); do
    grep -q "rank $rank of $ranks: \(the sum of all ranks is \)\?$sum\$" "$work/out" ||
      status=missing
  done
  [ "$hosts" = 0 ] || grep -q ": $ranks ranks on $hosts host" "$work/out" || status=hosts
  if [ $status = 0 ]; then
    echo "ok: $name"
  else
    echo "FAILED ($status): $name: $*"
    cat "$work/out"
    failures=$((failures + 1))
  fi
}

start_slurm() {
  mkdir "$work/state"
  dd if=/dev/urandom of="$work/munge.key" bs=128 count=1 status=none
  chmod 600 "$work/munge.key"
  chmod 755 "$work"
  munged --force --key-file="$work/munge.key" --socket="$work/munge.socket" \
    --pid-file="$work/pid.munged" --log-file="$work/munged.log" --seed-file="$work/munge.seed" ||
    { cat "$work/munged.log"; return 1; }
  cat >"$work/slurm.conf" <<EOF
ClusterName=rondo
SlurmctldHost=node1
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool.%h
SlurmctldPidFile=$work/pid.slurmctld
SlurmdPidFile=$work/pid.%h
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.%h.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
NodeName=node[1-2] CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=5 State=UP
EOF
  export SLURM_CONF=$work/slurm.conf
  "$work/on" node1 slurmctld && "$work/on" node1 slurmd && "$work/on" node2 slurmd || return 1
  eventually both_are_idle && return
  cat "$work"/slurm*.log
  return 1
}
both_are_idle() { [ "$("$work/on" node1 "sinfo -h -t idle -o %D" 2>/dev/null)" = 2 ]; }

if ! command -v slurmctld slurmd srun munged >/dev/null; then
  echo "skipped: Slurm (slurmctld slurmd slurm-client munge are not installed)"
elif start_slurm; then
  expect "srun" 4 2 "srun --nodes 2 --ntasks-per-node 2 $hello"
  expect "srun on one node" 3 1 "srun --nodes 1 --ntasks 3 $hello"
  expect "srun with PMI-2" 4 2 "srun --mpi pmi2 --nodes 2 --ntasks-per-node 2 $hello"
  expect "a step of one node in a job of two" 2 1 \
    "salloc --nodes 2 --ntasks-per-node 2 -Q srun --nodes 1 --ntasks 2 $hello"
  expect "two steps at a time" 2 2 \
    "salloc --nodes 2 --ntasks-per-node 2 -Q sh -c 'srun --overlap --nodes 2 --ntasks 2 $hello & " \
    "srun --overlap --nodes 2 --ntasks 2 $hello; wait'"
  expect "a batch script without srun" 1 0 \
    "sbatch -Q --wait --nodes 2 --ntasks-per-node 2 --output $work/batch --wrap $hello;" \
    "cat $work/batch"
  [ -z "$python" ] ||
    expect "srun and PyTorch" 4 2 "srun --nodes 2 --ntasks-per-node 2 $python -m rondo.torch.run" \
      "$here/torch/programs/sum.py gloo"
else
  echo "FAILED: Slurm does not start"
  failures=$((failures + 1))
fi

master="MASTER_ADDR=node1 -x MASTER_PORT=29511 -x RONDO_SECRET -x NCCL_DEBUG -x OMP_NUM_THREADS"
open_mpi="mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent $work/on --mca plm rsh"
open_mpi+=" --host node1:2,node2:2 -n 4 -x $master"
if command -v mpirun.openmpi >/dev/null; then
  expect "Open MPI" 4 2 "$open_mpi $hello"
  [ -z "$python" ] ||
    expect "Open MPI and PyTorch" 4 2 \
      "$open_mpi $python -m rondo.torch.run $here/torch/programs/sum.py gloo"
fi
mpich="MASTER_ADDR=node1 MASTER_PORT=29512 mpirun.mpich -launcher ssh -launcher-exec $work/on"
mpich+=" -hosts node1,node2 -ppn 2 -n 4"
if command -v mpirun.mpich >/dev/null; then
  expect "MPICH" 4 2 "$mpich $hello"
fi
if [ -n "$python" ]; then
  torchrun="$(dirname "$python")/torchrun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d"
  torchrun+=" --rdzv-endpoint node1:29513 -m rondo.torch.run $here/torch/programs/sum.py gloo"
  ("$work/on" node2 "$torchrun" >"$work/second" 2>&1; touch "$work/second.over") &
  expect "torchrun" 4 2 \
    "$torchrun; until [ -e $work/second.over ]; do sleep 0.1; done; cat $work/second"
  wait $!
fi
exit $((failures > 0))
