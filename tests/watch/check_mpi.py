# SPDX-License-Identifier: Apache-2.0
"""rondo watch --mpi: the rank that does not enter a call of a real MPI is named, and the job's
results stay right, also where one rank is not watched.

  check_mpi.py RONDO LAUNCHER MPI_JOB

Exit status 77: this launcher is not installed.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

DEADLINE_SECONDS = 300
# By what rank 1 keeps the others waiting: see mpi_job.c.
NAMED = {
    "": r"rank 1 .* has not entered call 102, AllReduce\(count 4, float32\)",
    "message": r"rank 1 .* of communicator MPI_COMM_WORLD has not entered "
               r"Send\(count 4, float32, peer 1\)",
    "ring": r"rank 1 .* has not entered ",
}


def with_an_unwatched_rank(mpirun, job, go):
    """The error, or None. Nobody waits for that rank but the program."""
    ranks = ["-n", "2", job, go, ":", "-n", "1", "env", "-u", "LD_PRELOAD", job, go]
    done = subprocess.run([*mpirun, *ranks], capture_output=True, text=True,
                          timeout=DEADLINE_SECONDS)
    if done.returncode != 0 or "all right" not in done.stdout:
        return f"with an unwatched rank: {done.returncode}\n{done.stdout}{done.stderr}"
    return None


def without_rank_1(rondo, mpirun, job, folder, mode):
    """The error, or None: rank 1 is named while the others wait for it."""
    go = os.path.join(folder, "go" + mode)
    words = [*mpirun, "-n", "3", job, go, *([mode] if mode else [])]
    with open(os.path.join(folder, "out" + mode), "w+", encoding="utf-8") as out:
        with subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT) as started:
            end, page = time.monotonic() + DEADLINE_SECONDS, ""
            while not re.search(NAMED[mode], page) and started.poll() is None:
                if time.monotonic() > end:
                    started.kill()
                    break
                asked = subprocess.run([rondo, "ps"], capture_output=True, text=True,
                                       timeout=DEADLINE_SECONDS)
                page = asked.stdout + asked.stderr
            with open(go, "w", encoding="utf-8"):
                pass
            status = started.wait(DEADLINE_SECONDS)
        out.seek(0)
        printed = out.read()
    named = re.search(NAMED[mode], page)
    if not named:
        return f"{mode}: rank 1 is not named:\n{page}\n{printed}"
    if status != 0 or "all right" not in printed:
        return f"{mode}: the job ended with {status}:\n{printed}"
    print(named.group())
    return None


def main():
    rondo, launcher, job = sys.argv[1:]
    if shutil.which(launcher) is None:
        print(f"not run: there is no {launcher}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RONDO_STATUS_DIR"] = os.path.join(folder, "status")
        more = ["--oversubscribe", "--allow-run-as-root"] if "openmpi" in launcher else []
        mpirun = [rondo, "watch", "--mpi", "--", launcher, *more]
        wrong = [without_rank_1(rondo, mpirun, job, folder, mode) for mode in NAMED]
        wrong.append(with_an_unwatched_rank(mpirun, job, os.path.join(folder, "go")))
    print("\n".join(filter(None, wrong)))
    return int(any(wrong))


if __name__ == "__main__":
    sys.exit(main())
