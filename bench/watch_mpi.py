# SPDX-License-Identifier: Apache-2.0
"""What rondo watch --mpi adds to a call of MPI: an all-reduce of 16 bytes with and without it, one
run after the other, and the medians.

  bench/watch_mpi.py RONDO LAUNCHER WATCHED_JOB [RANKS [ROUNDS]]

WATCHED_JOB: build/dev/bin/watched_openmpi or watched_mpich.
"""

import os
import statistics
import subprocess
import sys
import tempfile

BATCHES = "200"  # of 100 calls


def microseconds(words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
    return float(done.stdout.split()[0])


def main():
    rondo, launcher, job, *more = sys.argv[1:]
    ranks = more[0] if more else "2"
    rounds = int(more[1]) if len(more) > 1 else 11
    options = ["--oversubscribe", "--allow-run-as-root"] if "openmpi" in launcher else []
    plain = [launcher, *options, "-n", ranks, job, "--calls", BATCHES]
    times = {"alone": [], "watched": []}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RONDO_STATUS_DIR"] = folder
        for _ in range(rounds):
            times["alone"].append(microseconds(plain))
            times["watched"].append(microseconds([rondo, "watch", "--mpi", "--", *plain]))
    for name, values in times.items():
        print(f"{name}: {statistics.median(values):.2f} us (fastest {min(values):.2f})")
    pairs = [watched - alone for alone, watched in zip(times["alone"], times["watched"])]
    print(f"difference of a pair of runs: {statistics.median(pairs):.2f} us (median of {rounds})")


if __name__ == "__main__":
    main()
