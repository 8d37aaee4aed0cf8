# SPDX-License-Identifier: Apache-2.0
"""Large calls run on torch's own threads, in processes that have them."""

import os
import pathlib
import subprocess
import sys

import pytest
from rondo.torch import threads

PROGRAM = pathlib.Path(__file__).with_name("programs") / "threads.py"
pytestmark = pytest.mark.skipif(
    threads._parallel_for is None, reason="this torch does not export torch_parallel_for"
)


def reported_by(ranks, **variables):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), str(PROGRAM)]
    environment = {k: v for k, v in os.environ.items() if k != "RONDO_THREADS"} | variables
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("pool")]


@pytest.mark.parametrize("number", ["1", "3"])
def test_calls_of_the_main_thread_use_torchs_pool_and_start_no_threads(number):
    wanted = "pool True, 0 threads of Rondo"
    assert reported_by(2, OMP_NUM_THREADS=number) == [wanted] * 2


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_rondo_threads_asks_for_rondos():
    wanted = "pool False, 1 threads of Rondo"
    assert reported_by(1, OMP_NUM_THREADS="1", RONDO_THREADS="2") == [wanted]
