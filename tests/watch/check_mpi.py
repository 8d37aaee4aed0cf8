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
NAMED = re.compile(r"rank 1 .* has not entered call 102, AllReduce\(count 4, float32\)")


def with_an_unwatched_rank(mpirun, job, go):
    """The error, or None. Nobody waits for that rank but the program."""
    ranks = ["-n", "2", job, go, ":", "-n", "1", "env", "-u", "LD_PRELOAD", job, go]
    done = subprocess.run([*mpirun, *ranks], capture_output=True, text=True,
                          timeout=DEADLINE_SECONDS)
    if done.returncode != 0 or "all right" not in done.stdout:
        return f"with an unwatched rank: {done.returncode}\n{done.stdout}{done.stderr}"
    return None


def main():
    rondo, launcher, job = sys.argv[1:]
    if shutil.which(launcher) is None:
        print(f"not run: there is no {launcher}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        go = os.path.join(folder, "go")
        os.environ["RONDO_STATUS_DIR"] = os.path.join(folder, "status")
        more = ["--oversubscribe", "--allow-run-as-root"] if "openmpi" in launcher else []
        mpirun = [rondo, "watch", "--mpi", "--", launcher, *more]
        words = [*mpirun, "-n", "3", job, go]
        with open(os.path.join(folder, "out"), "w+", encoding="utf-8") as out:
            with subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT) as started:
                end, page = time.monotonic() + DEADLINE_SECONDS, ""
                while not NAMED.search(page) and started.poll() is None:
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
        wrong = with_an_unwatched_rank(mpirun, job, go)
    if not NAMED.search(page):
        print(f"rank 1 is not named:\n{page}\n{printed}")
        return 1
    if status != 0 or "all right" not in printed:
        print(f"the job ended with {status}:\n{printed}")
        return 1
    if wrong:
        print(wrong)
        return 1
    print(NAMED.search(page).group())
    return 0


if __name__ == "__main__":
    sys.exit(main())
