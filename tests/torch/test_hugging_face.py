# SPDX-License-Identifier: Apache-2.0
"""accelerate and transformers train on CPUs under rondo.torch.run as they train on one rank."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

PROGRAMS = pathlib.Path(__file__).parent / "programs"
RUN = ["-m", "rondo.torch.run"]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *RUN]


def result_of(*command):
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stdout
    (found,) = re.findall(r"^loss (\S+) weights (\S+)$", done.stdout, re.MULTILINE)
    return [float(number) for number in found], done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("library", ["accelerate", "transformers"])
def test_two_ranks_train_as_one(library):
    pytest.importorskip(library)
    program = PROGRAMS / f"with_{library}.py"
    alone, _ = result_of(program)
    together, text = result_of(*TORCHRUN, program)
    assert together == pytest.approx(alone, rel=1e-3)
    assert ": 2 ranks on 1 host, shared memory" in text


@pytest.mark.slow
def test_a_trainer_that_names_gloo():
    pytest.importorskip("transformers")
    program = PROGRAMS / "with_transformers.py"
    assert ": 2 ranks on 1 host" in result_of(*TORCHRUN, program, "--named")[1]
