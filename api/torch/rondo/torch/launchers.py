"""Ranks started by mpirun or srun: their numbers, and a default address at which they meet."""

from __future__ import annotations

import os
import pathlib
import tempfile
from typing import Any

# Open MPI, MPICH and its descendants, Slurm.
RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK")
SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "WORLD_SIZE")
LOCAL_SIZES = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
HOSTS = ("SLURM_STEP_NUM_NODES", "SLURM_NNODES")
# Variables that identify a job on its host. A row is used if all its variables are set.
JOBS = (
    ("PMIX_NAMESPACE",),
    ("OMPI_MCA_ess_base_jobid",),
    ("PMI_JOBID",),
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
)
PARENTS = ("hydra", "mpiexec", "mpirun", "orted", "prted", "slurmstepd")


def first_of(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if name in os.environ), None)


def are_on_several_hosts(size: int) -> bool:
    local = first_of(LOCAL_SIZES)
    return int(local) < size if local else int(first_of(HOSTS) or 1) > 1


def job() -> str:
    """The same for all ranks of this host, also if each has a shell around it."""
    for names in JOBS:
        if all(name in os.environ for name in names):
            return "-".join(os.environ[name] for name in names)
    pid = os.getppid()
    try:
        while pid > 1:
            # "pid (name) state parent ...": names may contain spaces and brackets
            name, _, rest = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")
            if name.partition("(")[2].startswith(PARENTS):
                return str(pid)
            pid = int(rest.split()[1])
    except OSError:
        pass
    return str(os.getppid())


def rendezvous(init_method: str | None) -> dict[str, Any]:
    """Arguments of init_process_group. Without a launcher: a world of one rank, as in MPI."""
    rank, size = int(first_of(RANKS) or 0), int(first_of(SIZES) or 1)
    if init_method is None and "MASTER_ADDR" not in os.environ:
        if are_on_several_hosts(size):
            raise RuntimeError(
                f"rondo: {size} ranks are on several hosts, but MASTER_ADDR is not set: "
                "set MASTER_ADDR to the host of rank 0 (mpirun -x MASTER_ADDR=..., or srun "
                "--export=ALL,MASTER_ADDR=...)"
            )
        name = f"rondo-torch-{os.getuid()}-{job()}".replace("/", "_")
        init_method = f"file://{tempfile.gettempdir()}/{name}"
    if init_method in (None, "env://"):
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))
        os.environ.setdefault("MASTER_PORT", "29500")
        return {"init_method": "env://"}
    return {"init_method": init_method, "rank": rank, "world_size": size}
