#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a test program on emulated devices for many seeds, with and without weak memory.
#   tests/simt/seeds.sh FIRST LAST program arguments...      these seeds
#   tests/simt/seeds.sh SECONDS s program arguments...       as many as fit, from a seed of chance
# With RONDO_SIMT_PARTS=N each seed runs one part of N of a GoogleTest program's tests, so that the
# time is kept better. Prints how to repeat the first run that fails, and ends with 1.
set -uo pipefail
first=$1 last=$2
shift 2
end=0 parts=${RONDO_SIMT_PARTS:-1}
if [ "$last" = s ]; then
  end=$((SECONDS + first)) first=$((RANDOM * RANDOM)) last=$((1 << 62))
fi
modes=(seed weak "seed,queues=1" "weak,queues=1,multiprocessors=1")
for ((seed = first; seed <= last; seed++)); do
  [ $end -eq 0 ] || [ $SECONDS -lt $end ] || break
  mode=${modes[seed % ${#modes[@]}]}
  settings=(RONDO_SIMT_SEED=$seed "RONDO_SIMT=mode=$mode")
  [ "$parts" = 1 ] || settings+=(GTEST_TOTAL_SHARDS=$parts
                                 GTEST_SHARD_INDEX=$((seed / ${#modes[@]} % parts)))
  if ! output=$(env "${settings[@]}" timeout "${RONDO_SIMT_LIMIT:-300}" "$@" 2>&1); then
    printf '%s\n' "$output" | tail -n 60
    echo "seed $seed failed; repeat with: ${settings[*]} $*"
    exit 1
  fi
done
echo "seeds $first to $((seed - 1)), $((seed - first)) in all, passed: $*"
