# SPDX-License-Identifier: Apache-2.0
"""Who stands beside Rondo in bench/compare.sh, how each is started, and what it lacks.

Every rank is bound to one core by the same rule (bind() of loop.h), and launchers that bind by
themselves are told not to. In the condition "real" nobody is told anything: each rank has the cores
that its launcher gives it by default.
"""
import os
import re

OWN_LOOPS = ["two_copy", "two_copy_nt", "one_copy", "one_copy_nt"]
DIRECT_LOOPS = ["direct", "direct_nt"]
RIVALS = ["openmpi", "openmpi_ucx", "openmpi_debian", "mpich", "mpich_debian", "intel_mpi",
          "oneccl", "deepspeed"]
RONDO = ["rondo", "rondo_threads", "rondo_alloc"]

LABELS = {"openmpi": "Open MPI", "openmpi_ucx": "Open MPI over UCX",
          "openmpi_debian": "Debian's Open MPI over UCX",
          "openmpi_sm": "Open MPI with coll/sm",  # of older runs only
          "mpich": "MPICH",
          "mpich_debian": "Debian's MPICH", "intel_mpi": "Intel MPI", "oneccl": "oneCCL",
          "deepspeed": "DeepSpeed"}
HEADS = {"openmpi": "ompi", "openmpi_ucx": "ompi-ucx", "openmpi_debian": "ompi-deb",
         "mpich": "mpich", "mpich_debian": "mpich-deb", "intel_mpi": "impi", "oneccl": "oneccl",
         "deepspeed": "deepspeed"}

OVER_UCX = ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"]
# By contestant: its program's last name, its launcher, its settings. Debian's Open MPI runs over
# UCX, which is the fastest of its ways in most cells.
OPEN_MPI = {
    "openmpi": ("openmpi", "{build}/compare/openmpi/bin/mpirun", []),
    "openmpi_ucx": ("openmpi", "{build}/compare/openmpi/bin/mpirun", OVER_UCX),
    "openmpi_debian": ("openmpi_debian", "mpirun.openmpi", OVER_UCX),
}
MPICH = {"mpich": "{build}/compare/mpich/bin/mpiexec", "mpich_debian": "mpirun.mpich"}

# Variables that a contestant is started with. oneCCL is at its fastest on its caller's thread, over
# libfabric's shared memory; its libccl.so.2 loads the plugin for CPUs by name.
VARIABLES = {
    "intel_mpi": ["I_MPI_ROOT={build}/compare/venv", "I_MPI_FABRICS=shm"],
    "oneccl": ["LD_LIBRARY_PATH={build}/compare/venv/lib", "CCL_PLUGIN=ONECCL_LEGACY_CPU",
               "CCL_ATL_TRANSPORT=ofi", "CCL_ATL_SHM=1", "FI_PROVIDER=shm",
               "CCL_WORKER_OFFLOAD=0", "CCL_YIELD=sched_yield", "CCL_LOG_LEVEL=error"],
    "deepspeed": ["OMP_NUM_THREADS=1"],
}
LACKS = {
    "oneccl": {"gather", "barrier"},
    "deepspeed": {"reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "gather",
                  "scatter", "barrier"},
}


def program_of(name, build):
    return f"{build}/compare/contestant.{OPEN_MPI[name][0] if name in OPEN_MPI else name}"


def absent(name, build):
    """True if rivals.sh has not made this contestant's program."""
    return name in RIVALS and not os.path.exists(program_of(name, build))


def can_run(name, operation, build):
    """True if the contestant is installed and has the operation."""
    return not absent(name, build) and operation not in LACKS.get(name, ())


def mpi_launcher(name, ranks, build, bound):
    """The words before an MPI's program; `bound`: by the contestant, not by the launcher."""
    crowded = ranks > len(os.sched_getaffinity(0))
    if name in OPEN_MPI:
        _, launcher, settings = OPEN_MPI[name]
        words = [launcher.format(build=build)]
        words += ["--allow-run-as-root"] if os.geteuid() == 0 else []
        if crowded:
            words += ["--oversubscribe"] if name == "openmpi_debian" else \
                     ["--map-by", ":OVERSUBSCRIBE"]
        words += ["--bind-to", "none"] if bound else []
        return [*words, *settings, "-np", str(ranks)]
    if name == "intel_mpi":
        return [f"{build}/compare/venv/bin/mpiexec.hydra", "-n", str(ranks)]
    return [MPICH[name].format(build=build), "-np", str(ranks)]  # binds to nothing by default


def command_of(name, ranks, folder, build, bound=True):
    """The command that starts a contestant. All its ranks are children of one launcher, in one
    session."""
    build = os.path.abspath(build)
    release = f"{build}/release/bin"
    by_rondo = [f"{release}/rondo", "run", "-n", str(ranks), "--no-prefix", "--"]
    if name in RIVALS:
        variables = [text.format(build=build) for text in VARIABLES.get(name, [])]
        if name == "intel_mpi" and bound:
            variables.append("I_MPI_PIN=0")
        launcher = by_rondo if name in ("oneccl", "deepspeed") else \
            mpi_launcher(name, ranks, build, bound)
        return ["env", *variables, *launcher, program_of(name, build), folder]
    if name == "rondo_threads":
        return [f"{release}/rondo_contestant", folder, "--threads", str(ranks)]
    if name in ("rondo", "rondo_alloc"):
        more = ["--alloc"] if name == "rondo_alloc" else []
        return [*by_rondo, f"{release}/rondo_contestant", folder, *more]
    return [f"{release}/own_loops", folder, str(ranks), name]


def version_in(text):
    """The version number in what a library says about itself; "" if it has none."""
    found = re.search(r"\d+(\.\d+)+", text)
    return found[0] if found else ""
