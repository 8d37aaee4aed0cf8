# SPDX-License-Identifier: Apache-2.0
"""vLLM itself on Rondo: it generates the tokens that it generates with its own communicator."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("vllm")
PROGRAM = pathlib.Path(__file__).parent / "programs" / "with_vllm.py"
SETTINGS = {
    "NCCL_DEBUG": "VERSION",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


def generate(*options, **variables):
    """The line of tokens, and everything that was printed."""
    done = subprocess.run(
        [sys.executable, PROGRAM, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        env={**os.environ, **SETTINGS, **variables},
    )
    tokens = re.findall(r"^tokens .*$", done.stdout, re.MULTILINE)
    assert done.returncode == 0 and tokens, done.stdout
    return tokens, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--compile"]], ids=["eager", "compiled"])
def test_tokens_are_those_of_vllms_own_communicator(options):
    tokens, text = generate(*options)
    assert "rondo 0.1.0: 2 ranks on 1 host, shared memory" in text, text
    own, text = generate(*options, VLLM_PLUGINS="")
    assert "rondo 0.1.0" not in text
    assert tokens == own
