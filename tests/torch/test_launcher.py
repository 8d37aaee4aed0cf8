# SPDX-License-Identifier: Apache-2.0
"""rondo.torch.run runs unedited programs that name other backends and GPUs."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from ranks import free_port

PROGRAMS = pathlib.Path(__file__).parent / "programs"
RUN = [sys.executable, "-m", "rondo.torch.run"]
DEADLINE_SECONDS = 600  # for busy machines
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]


def call(command, **environment):
    """Standard output and errors, once the command has succeeded."""
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_SECONDS,
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
    assert text.count(": 2 ranks on 1 host, shared memory") == 1, text


def test_torchrun_by_rondo_torch_run():
    """Its workers are children, so they read the variables."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    text = call([*RUN, *torchrun, PROGRAMS / "sum.py", "nccl"])
    assert "rank 0 of 2: 1" in text and "rank 1 of 2: 1" in text


ONE_RANK = """
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("module", ["code", "one_rank"])
def test_modules_by_name(module, tmp_path):
    """An interpreter, which reads the program as a person would type it, and one of the program."""
    (tmp_path / "one_rank.py").write_text(ONE_RANK)
    done = subprocess.run(
        [*RUN, "-m", module],
        input=ONE_RANK,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
    )
    assert done.returncode == 0 and ": 1 rank on 1 host" in done.stderr, done


def test_a_program_with_its_own_nccl_runs_preloaded(tmp_path):
    program = tmp_path / "names.py"
    program.write_text(
        "import ctypes, os\n"
        "version = ctypes.c_int()\n"
        "ctypes.CDLL(None).ncclGetVersion(ctypes.byref(version))\n"
        "print(version.value, os.environ['LD_PRELOAD'])\n"
    )
    text = call([*RUN, "--preload", program])
    version, library = text.split()[-2:]
    assert int(version) >= 22809 and library.endswith("/libnccl.so.2"), text


@pytest.mark.slow
def test_a_trainer_with_snapshots_resumes(tmp_path):
    program = [PROGRAMS / "multi_gpu.py", tmp_path / "snapshot.pt"]
    command = [*TORCHRUN, "--nproc-per-node=2", "-m", "rondo.torch.run", "--device", "cpu"]
    text = call([*command, *program, 2])
    assert "[GPU1] Epoch 1 | Batchsize: 8 | Steps: 4" in text and "Resuming" not in text
    text = call([*command, *program, 3])
    assert text.count("Resuming training from snapshot at epoch 2") == 2
    assert "[GPU0] Epoch 2" in text and "Epoch 1 |" not in text


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


@pytest.mark.parametrize(
    "line",
    [
        "torch.cuda.set_device(0)",
        "torch.ones(1).cuda()",
        "torch.nn.Linear(2, 2).to('cuda:0')",
        "torch.cuda.Stream()",
        "torch.accelerator.set_device_index(0)",
    ],
)
def test_a_gpu_program_without_a_gpu_learns_in_one_line_what_to_add(line, tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    program = tmp_path / "train.py"
    program.write_text(f"import torch\n\n{line}\n")
    done = subprocess.run([*RUN, program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"rondo: {program}:3: torch finds no GPU here ("), done.stderr
    assert "add --device cpu to rondo.torch.run" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_program_that_does_without_a_gpu_catches_the_error():
    code = "import torch\ntry: torch.ones(1).cuda()\nexcept RuntimeError: print('on the CPU')"
    assert call([sys.executable, "-c", code], RONDO_TORCH_RUN="1") == "on the CPU\n"


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
    """Four GPUs: four ranks, then two whose model is on two GPUs each."""
    text = call(
        [*RUN, "--device", "cpu", "--devices", "4", PROGRAMS / "ddp_tutorial.py", free_port()]
    )
    for rank in range(4):
        assert f"Finished running basic DDP example on rank {rank}." in text
        assert f"Finished running DDP checkpoint example on rank {rank}." in text
    for rank in range(2):
        assert f"Finished running DDP with model parallel example on rank {rank}." in text


@pytest.mark.parametrize(
    "names",
    [
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        pytest.param(("PMI_RANK", "PMI_SIZE"), marks=pytest.mark.slow),
        pytest.param(("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("master", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_mpi_ranks_meet_by_themselves(names, master):
    """The program gives rank 0 of 0, as PyTorch's tutorial does for mpi."""
    port = [str(free_port())] if master else []
    processes = [
        subprocess.Popen(
            [*RUN, PROGRAMS / "mpi_tutorial.py", *port],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**without_launcher(), names[0]: str(rank), names[1]: "2"},
        )
        for rank in range(2)
    ]
    for rank, process in enumerate(processes):
        text, _ = process.communicate(timeout=DEADLINE_SECONDS)
        assert f"rank {rank} of 2 by mpi: 1" in text, text
        assert process.returncode == 0


def test_mpi_ranks_on_several_hosts_get_an_error_that_names_what_to_set():
    variables = {
        "OMPI_COMM_WORLD_RANK": "0",
        "OMPI_COMM_WORLD_SIZE": "4",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    }
    done = subprocess.run(
        [*RUN, PROGRAMS / "mpi_tutorial.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_SECONDS,
        env={**without_launcher(), **variables},
    )
    assert done.returncode != 0
    assert "4 ranks are on several hosts" in done.stdout and "MASTER_ADDR" in done.stdout


def without_launcher():
    names = ("MASTER_", "RANK", "WORLD", "OMPI_", "PMI", "MPI_", "SLURM_")
    return {k: v for k, v in os.environ.items() if not k.startswith(names)}


@pytest.mark.parametrize("launcher", ["mpirun.openmpi", "mpiexec.hydra"])
def test_mpirun(launcher):
    if shutil.which(launcher) is None:
        pytest.skip(f"{launcher} is not installed")
    open_mpi = ["--allow-run-as-root", "--oversubscribe"] if "openmpi" in launcher else []
    in_a_shell = ["sh", "-c", '"$@"; exit $?', "sh"]
    text = call([launcher, *open_mpi, "-n", 3, *in_a_shell, *RUN, PROGRAMS / "mpi_tutorial.py"])
    assert all(f"rank {rank} of 3 by mpi: 3" in text for rank in range(3))


@pytest.mark.parametrize("launcher", ["mpirun.openmpi", "mpiexec.hydra"])
def test_mpirun_starts_scripts_that_expect_torchrun(launcher):
    if shutil.which(launcher) is None:
        pytest.skip(f"{launcher} is not installed")
    open_mpi = ["--allow-run-as-root", "--oversubscribe"] if "openmpi" in launcher else []
    text = call([launcher, *open_mpi, "-n", 2, *RUN, PROGRAMS / "sum.py", "gloo"])
    assert "rank 0 of 2: 1" in text and "rank 1 of 2: 1" in text


def test_names_of_torch_distributed_work_as_for_the_backend_that_was_asked_for():
    text = call([*TORCHRUN, "--nproc-per-node=2", "-m", "rondo.torch.run", PROGRAMS / "names.py"])
    assert text.count("all names work") == 2


def test_the_entry_point_registers_the_backend_and_never_raises():
    code = "import torch, torch.distributed as d; print('rondo' in d.Backend.backend_list)"
    assert "True" in call([sys.executable, "-c", code])


@pytest.mark.parametrize(
    "variables",
    [
        {"RONDO_LIBRARY": "/nowhere"},
        {"RONDO_TORCH_RUN": "1", "RONDO_TORCH_DEVICE": "toaster"},
        {"RONDO_TORCH_RUN": "1", "RONDO_TORCH_DEVICE": "cpu", "RONDO_TORCH_DEVICES": "many"},
    ],
)
def test_importing_torch_works_with_any_variables(variables):
    code = "import torch; print('sum', torch.ones(2).sum().item())"
    assert "sum 2.0" in call([sys.executable, "-c", code], **variables)
