"""rondo.torch.run: programs that name other backends and GPUs, as they are."""

import os
import pathlib
import shutil
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


def test_habits_of_gpu_programs_on_the_cpu():
    text = call(
        [*TORCHRUN, "--nproc-per-node=2", "-m", "rondo.torch.run", "--device", "cpu",
         PROGRAMS / "gpu_habits.py"]
    )  # fmt: skip
    assert text.count("all habits work") == 2


ONE_GPU = """
import torch
asked = []
torch.cuda.synchronize = lambda device=None: asked.append(device)  # there is no GPU here
from rondo.torch import devices
devices.pretend("cuda:0")
assert torch.cuda.is_available() and torch.cuda.device_count() == 4
torch.cuda.set_device("cuda:3")
assert torch.cuda.current_device() == 3
torch.cuda.synchronize(3)
torch.cuda.synchronize()
assert asked == [torch.device("cuda:0")] * 2, asked
class Seen(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), named=None):
        asked.append((arguments[1:], named))
        return function(*arguments, **{**(named or {}), "device": "meta"})
asked.clear()
tensor = torch.ones(2)
# Modes nest: the mapping runs first, then Seen.
with torch.overrides._pop_mode_temporarily() as mapping:
    with Seen(), mapping:
        torch.zeros(2, device=3)
        torch.zeros(2, device="cuda:1")
assert [named for _, named in asked] == [{"device": torch.device("cuda:0")}] * 2, asked
"""


def test_every_gpu_that_is_named_is_the_one_gpu():
    call([sys.executable, "-c", ONE_GPU], RONDO_TORCH_DEVICES="4")


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


@pytest.mark.parametrize("launcher", ["mpirun.openmpi", "mpiexec.hydra"])
def test_mpirun(launcher):
    if shutil.which(launcher) is None:
        pytest.skip(f"{launcher} is not installed")
    open_mpi = ["--allow-run-as-root", "--oversubscribe"] if "openmpi" in launcher else []
    text = call([launcher, *open_mpi, "-n", 3, *RUN, PROGRAMS / "sum.py", "mpi"])
    assert all(f"rank {rank} of 3: 3" in text for rank in range(3))


def test_names_of_torch_distributed_work_as_for_the_backend_that_was_asked_for():
    text = call([*TORCHRUN, "--nproc-per-node=2", "-m", "rondo.torch.run", PROGRAMS / "names.py"])
    assert text.count("all names work") == 2


def test_the_entry_point_registers_the_backend_and_never_raises():
    code = "import torch, torch.distributed as d; print('rondo' in d.Backend.backend_list)"
    assert "True" in call([sys.executable, "-c", code])
    assert "1" in call([sys.executable, "-c", "import torch; print(1)"], RONDO_LIBRARY="/nowhere")
