# SPDX-License-Identifier: Apache-2.0
"""librondo-watch.so in a library with NCCL's interface on a GPU: rondo ps shows the calls of all
ranks, and that they end; rondo trace shows the record.

  watch_check.py BIN LIB LIBRARY RANKS ended|entered|known

BIN, LIB: folders of a build, with rondo, nccl_contestant and librondo-watch.so. LIBRARY: a
libnccl.so.2, NVIDIA's or ours, which tells of no kernels: its calls are only seen as entered.
known: the ranks shall be shown, with or without calls: NVIDIA's tells of none where a communicator
has one rank. Ranks are threads of one process: on one device, NVIDIA's needs version 2.30 and
NCCL_MULTI_RANK_GPU_ENABLE=1.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

LIMIT_SECONDS = float(os.environ.get("RONDO_CHECK_SECONDS", "45"))
CALLS = 20  # of each rank


def asked(words: list) -> dict:
    done = subprocess.run(
        [*map(str, words), "--json"], capture_output=True, text=True, timeout=LIMIT_SECONDS
    )
    return json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr.strip()}


def ranks_of(page: dict) -> list[dict]:
    return [rank for one in page.get("communicators", []) for rank in one["ranks_here"]]


def is_shown(page: dict, ranks: int, mode: str) -> bool:
    """Each rank has made calls; the first count is that of all-reduces."""
    shown = ranks_of(page)
    newest = "finished_call" if mode == "ended" else "call"
    return len(shown) == ranks and all(
        "watched" in rank
        and (mode == "known" or (rank["counts"][0] >= CALLS and rank[newest] >= CALLS))
        for rank in shown
    )


def watch(program: subprocess.Popen, rondo: pathlib.Path, ranks: int, mode: str) -> str:
    """What is wrong; "": nothing."""
    end = time.monotonic() + LIMIT_SECONDS
    page: dict = {}
    while not is_shown(page, ranks, mode):
        if program.poll() is not None:
            return f"the program ended with {program.returncode} before it was seen: {page}"
        if time.monotonic() > end:
            return f"rondo ps does not show the calls of {ranks} ranks: {json.dumps(page)}"
        time.sleep(0.2)
        page = asked([rondo, "ps", program.pid])
    if page["blamed"]:
        return f"a job that makes progress is accused: {page['blamed']}"
    trace = asked([rondo, "trace", program.pid])
    calls = [call for one in trace.get("communicators", []) for call in one["calls"]]
    if mode != "known" and (not calls or "AllReduce" not in calls[-1]["text"]):
        return f"rondo trace does not show the calls: {json.dumps(trace)[:2000]}"
    rank = ranks_of(page)[0]
    print(f"{ranks} ranks watched: {rank['doing']}; {len(calls)} calls in the record")
    return ""


def main() -> int:
    binaries, libraries = map(pathlib.Path, sys.argv[1:3])
    library, ranks, mode = sys.argv[3], int(sys.argv[4]), sys.argv[5]
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(
            RONDO_STATUS_DIR=f"{folder}/status",
            NCCL_PROFILER_PLUGIN=str((libraries / "librondo-watch.so").resolve()),
            NCCL_RAS_ENABLE="0",  # else a job of Rondo's own shows itself
        )
        words = [
            str(binaries / "nccl_contestant"), "--library", library, "--threads",
            "--ranks", str(ranks), "--rounds", "1000", "--iterations", "1000",
            "--collective", "all_reduce", "--sizes", "4096",
        ]  # fmt: skip
        with open(f"{folder}/out", "w+", encoding="utf-8") as out:
            program = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)
            try:
                wrong = watch(program, binaries / "rondo", ranks, mode)
            finally:
                program.kill()
                program.wait()
            out.seek(0)
            printed = out.read()
    if wrong:
        print(f"{wrong}\n{printed[-2000:]}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
