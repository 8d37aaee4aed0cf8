#!/usr/bin/env bash
# Rondo in one command: installs what is missing, builds, measures all-reduce on 4 ranks, and trains
# a character model on this machine's licence texts with 1, 2 and 4 ranks.
#   bash bench/demo.sh [STEPS]     training steps a run (default 60)
set -euo pipefail
cd "$(dirname "$0")/.."
steps=${1:-60}
.ci/install.sh
cmake --preset release >/dev/null
cmake --build --preset release --target rondo train_text | tail -n 1
bin=build/release/bin

echo "== all-reduce, 4 ranks as processes"
"$bin/rondo" bench all_reduce --ranks 4 -b 4 -e 16M -f 8 -n 20 --no-progress

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
for ranks in 1 2 4; do
  echo "== training on ${ranks} rank(s)"
  "$bin/rondo" run -n "$ranks" --no-prefix -- "$bin/train_text" --steps "$steps" |
    tee "$logs/$ranks"
done

echo "== summary: last line of every run (the losses agree: one global batch, cut into shards)"
for ranks in 1 2 4; do
  printf '%s rank(s): %s\n' "$ranks" "$(tail -n 1 "$logs/$ranks")"
done
