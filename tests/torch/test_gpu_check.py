# SPDX-License-Identifier: Apache-2.0
"""Runs what tests/gpu/check.sh runs on a GPU, here on the CPU, so that the check itself works."""

import os
import pathlib
import subprocess
import sys

import pytest
from rondo.torch.library import path

CHECK = pathlib.Path(__file__).parents[1] / "gpu" / "torch_check.py"


@pytest.mark.parametrize(
    "options", [["--ranks", "2"], pytest.param(["--ranks", "3", "--kill"], marks=pytest.mark.slow)]
)
def test_the_checks_for_gpus_pass_on_the_cpu(options):
    done = subprocess.run(
        [sys.executable, CHECK, "--device", "cpu", *options],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600,
        env={
            **os.environ, "OMP_NUM_THREADS": "1", "RONDO_LIBRARY": path(),
            "RONDO_CHECK_SECONDS": "300",
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    if "--kill" in options:
        assert done.stdout.count(" got: ") == 2
    else:
        assert done.stdout.count("reductions: passed") == 2
