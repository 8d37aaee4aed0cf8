"""rondo.torch.run: programs that name other backends and GPUs, as they are."""

import os
import pathlib
import subprocess
import sys

import pytest
from ranks import free_port

PROGRAMS = pathlib.Path(__file__).parent / "programs"
RUN = [sys.executable, "-m", "rondo.torch.run"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]


def call(command, **environment):
    """Standard output and errors, once the command has succeeded."""
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=170,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_classic_tutorial_by_fork(backend):
    text = call([*RUN, PROGRAMS / "classic_tutorial.py", backend, free_port()])
    assert f"Rank 1 has data 2.0 by {backend}" in text


@pytest.mark.slow
def test_classic_tutorial_by_spawn():
    text = call([*RUN, PROGRAMS / "classic_tutorial.py", "gloo", free_port(), "spawn"])
    assert "Rank 0 has data 2.0 by gloo" in text


def test_torchrun_workers():
    text = call(
        [*TORCHRUN, "--nproc-per-node=2", "-m", "rondo.torch.run", PROGRAMS / "sum.py", "gloo"]
    )
    assert "rank 0 of 2: 1" in text and "rank 1 of 2: 1" in text


def test_gpu_program_of_torchrun_on_the_cpu():
    text = call(
        [*TORCHRUN, "--nproc-per-node=2", "-m", "rondo.torch.run", "--device", "cpu",
         PROGRAMS / "elastic.py"]
    )  # fmt: skip
    assert "rank 1 done with nccl" in text


@pytest.mark.slow
def test_ddp_tutorial_character_for_character():
    text = call(
        [*RUN, "--device", "cpu", "--devices", "2", PROGRAMS / "ddp_tutorial.py", free_port()]
    )
    assert "Finished running basic DDP example on rank 1." in text
    assert "Finished running DDP checkpoint example on rank 1." in text
    assert "Finished running DDP with model parallel example on rank 0." in text


@pytest.mark.parametrize(
    "names",
    [
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        pytest.param(("PMI_RANK", "PMI_SIZE"), marks=pytest.mark.slow),
        pytest.param(("SLURM_PROCID", "SLURM_NTASKS"), marks=pytest.mark.slow),
    ],
)
def test_mpi_ranks_meet_by_themselves(names):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MASTER_", "RANK", "WORLD"))}
    processes = [
        subprocess.Popen(
            [*RUN, PROGRAMS / "sum.py", "mpi"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**clean, names[0]: str(rank), names[1]: "2"},
        )
        for rank in range(2)
    ]
    for rank, process in enumerate(processes):
        text, _ = process.communicate(timeout=100)
        assert f"rank {rank} of 2: 1" in text, text
        assert process.returncode == 0


def test_the_entry_point_registers_the_backend_and_never_raises():
    code = "import torch, torch.distributed as d; print('rondo' in d.Backend.backend_list)"
    assert "True" in call([sys.executable, "-c", code])
    assert "1" in call([sys.executable, "-c", "import torch; print(1)"], RONDO_LIBRARY="/nowhere")
