#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A C program finds its peers under every launcher that launch_env.h knows: rondo run, Open MPI and
# MPICH themselves; torchrun and srun through the variables that they set.
#   check_launchers.sh PROGRAM RONDO SHARED   PROGRAM: hello_allreduce; SHARED: it as a library
set -uo pipefail
program=$1 rondo=$2 shared=$3
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

# expect NAME RANKS STATUS: every rank printed the right sum to $work/out, and the status is STATUS.
expect() {
  local name=$1 ranks=$2 status=$3 sum=$(($2 * ($2 - 1) / 2)) rank
  for ((rank = 0; rank < ranks; rank++)); do
    grep -q "rank $rank of $ranks: the sum of all ranks is $sum\$" "$work/out" || status=missing
  done
  if [ "$status" = 0 ]; then
    echo "ok: $name"
  else
    echo "FAILED ($status): $name"
    cat "$work/out"
    failures=$((failures + 1))
  fi
}

# started NAME COMMAND...: three ranks started by a launcher.
started() {
  local name=$1
  shift
  if ! command -v "$1" >/dev/null; then
    echo "skipped: $name ($1 is not installed)"
    return
  fi
  timeout 550 "$@" "$program" >"$work/out" 2>&1
  expect "$name" 3 $?
}

# by_variables NAME RANKS: one process per rank, with the variables that variables_of RANK prints.
by_variables() {
  local name=$1 ranks=$2 rank status=0 pids=()
  for ((rank = 0; rank < ranks; rank++)); do
    # shellcheck disable=SC2046
    env $(variables_of "$rank") timeout 550 "$program" >"$work/out.$rank" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
  cat "$work"/out.[0-9]* >"$work/out"
  rm -f "$work"/out.[0-9]*
  expect "$name" "$ranks" "$status"
}

# A port outside the kernel's ephemeral range, and of those of other tests (tests/support/ports.h).
port=$((30000 + $$ % 2700))

started "rondo run" "$rondo" run -n 3 --
if ! grep -q "rondo [0-9.]*: 3 ranks on 1 host, shared memory\$" "$work/out"; then
  echo "FAILED: rondo run does not say that Rondo serves the program"
  cat "$work/out"
  failures=$((failures + 1))
fi
program=$shared started "rondo run --threads" "$rondo" run -n 3 --threads --
if timeout 550 "$rondo" run -n 2 --threads -- "$program" >"$work/out" 2>&1 ||
  ! grep -q "need a shared object (cc -shared -fPIC)" "$work/out"; then
  echo "FAILED: a program that is no library is not refused for threads"
  cat "$work/out"
  failures=$((failures + 1))
fi
started "Open MPI" mpirun.openmpi --allow-run-as-root --oversubscribe -n 3
started "MPICH" mpirun.mpich -n 3

variables_of() {
  echo "RANK=$1 WORLD_SIZE=3 LOCAL_RANK=$1 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1" \
    "MASTER_PORT=$port TORCHELASTIC_RUN_ID=$$ TORCHELASTIC_USE_AGENT_STORE=True"
}
by_variables "torchrun's variables" 3

variables_of() {
  echo "RANK=$1 WORLD_SIZE=4 LOCAL_RANK=$(($1 % 2)) LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1" \
    "MASTER_PORT=$port TORCHELASTIC_RUN_ID=$$ NCCL_HOSTID=node$(($1 / 2))"
}
by_variables "torchrun's variables, two hosts" 4

variables_of() {
  echo "SLURM_PROCID=$1 SLURM_STEP_NUM_TASKS=3 SLURM_LOCALID=$1 SLURM_STEP_TASKS_PER_NODE=3" \
    "SLURM_JOB_ID=$$ SLURM_STEP_ID=0"
}
by_variables "srun's variables" 3

variables_of() {
  echo "SLURM_PROCID=$1 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=$1 SLURM_STEP_TASKS_PER_NODE=1(x2)" \
    "SLURM_JOB_ID=$$ SLURM_STEP_ID=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port NCCL_HOSTID=node$1"
}
by_variables "srun's variables of a step on two hosts" 2

if RANK=3 WORLD_SIZE=3 timeout 550 "$program" >"$work/out" 2>&1 || ! grep -q "RANK='3'" "$work/out"
then
  echo "FAILED: a rank beyond the number of ranks is not refused"
  cat "$work/out"
  failures=$((failures + 1))
fi
exit $((failures > 0))
