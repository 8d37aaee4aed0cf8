# SPDX-License-Identifier: Apache-2.0
"""bench/beside/beside.py without a GPU: our library beside itself, and NVIDIA's, which finds none.

check_beside.py CONTESTANT LIBNCCL [NVIDIAS_LIBNCCL]
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

FETCH = pathlib.Path(__file__).parents[1] / "abi" / "fetch_nccl.sh"
BESIDE = pathlib.Path(__file__).parents[2] / "bench" / "beside" / "beside.py"
KINDS = ["all_reduce", "all_to_all"]


def beside(contestant: str, ours: str, theirs: str, *more: str) -> tuple[int, dict]:
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        done = subprocess.run(
            [sys.executable, BESIDE, "--contestant", contestant, "--ours", ours, "--theirs", theirs,
             "--sizes", "4,4096", "--iterations", "2", "--ranks", "1,2",
             "--collectives", ",".join(KINDS), "--json", out, *more],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        print(done.stdout)
        return done.returncode, json.loads(out.read_text())


def cut_short(contestant: str, ours: str) -> dict:
    """What a comparison has written by the time that it is killed."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        command = [sys.executable, BESIDE, "--contestant", contestant, "--ours", ours,
                   "--theirs", ours, "--sizes", "4", "--iterations", "2", "--ranks", "1",
                   "--devices", "1", "--collectives", "all_reduce", "--rounds", "1000",
                   "--json", out]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + 60
            while not out.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            process.kill()
        return json.loads(out.read_text())


def main() -> None:
    contestant, ours = sys.argv[1:3]
    found = cut_short(contestant, ours)
    assert not found["complete"] and found["lines"] and found["medians"], found
    code, found = beside(contestant, ours, ours, "--rounds", "2", "--devices", "2")
    assert code == 0 and found["not_run"] == [], found["not_run"]
    assert found["complete"]
    # 4 bytes are too few for two ranks; both libraries, both rounds, both forms.
    assert len(found["lines"]) == len(KINDS) * 3 * 2 * 2 * 2, len(found["lines"])
    assert len(found["medians"]) == len(KINDS) * 3 * 2
    assert all(row["ratio"] > 0 for row in found["medians"])

    fetched = subprocess.run([FETCH, "2.32.3"], capture_output=True, text=True)
    if fetched.returncode != 0:
        print(f"not run beside NVIDIA's library: {fetched.stderr.strip()}")
        return
    theirs = f"{fetched.stdout.strip()}/libnccl.so.2"
    code, found = beside(contestant, ours, theirs, "--rounds", "1", "--devices", "1")
    assert code == 0
    assert all(row["ours_us"] and not row["theirs_us"] for row in found["medians"])
    assert len(found["not_run"]) == len(KINDS) * 2, found["not_run"]
    assert all("theirs" in line and "CUDA" in line for line in found["not_run"])
    assert found["theirs"]["version"] != found["ours"]["version"]


if __name__ == "__main__":
    main()
