# SPDX-License-Identifier: Apache-2.0
"""Rondo beside MPI in one program: mpi4py, started by the mpiexec of PyPI's mpich."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("mpi4py")
HERE = pathlib.Path(__file__).parent
MPIEXEC = pathlib.Path(sys.executable).with_name("mpiexec")  # of this environment
DEADLINE_SECONDS = float(os.environ.get("RONDO_TEST_DEADLINE", "300"))  # for busy machines


def mpi(size, what):
    """Status and lines of stdout, sorted."""
    program = HERE / "programs" / "beside_mpi.py"
    done = subprocess.run(
        [MPIEXEC, "-n", str(size), sys.executable, str(program), what],
        stdout=subprocess.PIPE,
        text=True,
        timeout=DEADLINE_SECONDS,
    )
    return done.returncode, sorted(done.stdout.splitlines())


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_call_equals_that_of_mpi(size):
    assert mpi(size, "same") == (0, [f"rank {rank}: equal" for rank in range(size)])


def test_groups_of_an_mpi_communicator_are_groups_of_rondo():
    assert mpi(4, "halves") == (0, [f"rank {rank}: equal" for rank in range(4)])


def test_a_rank_that_waits_in_mpi_is_named_by_those_that_wait_in_rondo():
    status, lines = mpi(2, "late")
    assert status == 0 and lines[1] == "rank 1: has gone on"
    assert re.match(
        r"rank 0: rondo: rank 0 waited 1 s for rank 1 \(pid \d+ on .*AllReduce", lines[0]
    )


def test_two_wheels_are_refused_on_every_rank_with_both_versions():
    status, lines = mpi(2, "wheels")
    assert status == 0 and len(lines) == 2
    for line in lines:
        assert "rondo: rank 0 has rondo 0." in line
        assert "rank 1 has 0.0.9; install the same wheel on all hosts" in line


def test_every_rank_gets_the_error_of_the_rank_that_makes_the_id():
    status, lines = mpi(2, "fails")
    assert status == 0 and len(lines) == 2
    for rank, line in enumerate(lines):
        assert line.startswith(f"rank {rank}: rondo: ") and "absent0" in line
