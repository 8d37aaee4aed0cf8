# SPDX-License-Identifier: Apache-2.0
"""The contestants: groups of ranks that sleep on pipes until they get a request to measure.

Every group is started once per number of ranks. They are measured in turn, within milliseconds of
each other. See loop.h for the lines that are exchanged.
"""
import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

PATIENCE = 120.0  # seconds to wait for any answer

OWN_LOOPS = ["two_copy", "two_copy_nt", "one_copy", "one_copy_nt"]
DIRECT_LOOPS = ["direct", "direct_nt"]
RIVALS = ["openmpi", "openmpi_ucx", "openmpi_sm", "mpich", "intel_mpi", "oneccl", "deepspeed"]
RONDO = ["rondo", "rondo_threads", "rondo_alloc"]

OPENMPI_SETTINGS = {
    "openmpi": [],
    "openmpi_ucx": ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any",
                    "--mca", "pml_ucx_devices", "any"],
    "openmpi_sm": ["--mca", "coll_sm_priority", "100"],
}

# Those that may be absent (bench/compare/rivals.sh), the variables that each is started with, and
# the operations that it lacks. oneCCL is at its fastest on its caller's thread, over libfabric's
# shared memory.
OPTIONAL = {
    "intel_mpi": ["I_MPI_ROOT={build}/compare/venv", "I_MPI_FABRICS=shm", "I_MPI_PIN=0"],
    "oneccl": ["CCL_ATL_TRANSPORT=ofi", "CCL_ATL_SHM=1", "FI_PROVIDER=shm",
               "CCL_WORKER_OFFLOAD=0", "CCL_YIELD=sched_yield", "CCL_LOG_LEVEL=error"],
    "deepspeed": ["OMP_NUM_THREADS=1"],
}
LACKS = {
    "oneccl": {"gather", "scatter"},
    "deepspeed": {"reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "gather",
                  "scatter", "barrier"},
}


class ContestantFailed(Exception):
    """A group did not start, died, or gave a wrong result; the text says which and why."""


class NoAnswer(ContestantFailed):
    """A group did not answer in time: it hangs, or its call takes longer than anyone would wait."""


def can_run(name, operation, build):
    """True if the contestant is installed and has the operation."""
    there = name not in OPTIONAL or os.path.exists(f"{build}/compare/contestant.{name}")
    return there and operation not in LACKS.get(name, ())


def command_of(name, ranks, folder, build):
    """The command that starts a contestant. All its ranks are children of one launcher, in one
    session."""
    release = f"{build}/release/bin"
    if name in OPENMPI_SETTINGS:
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return ["mpirun.openmpi", *root, "--oversubscribe", "--bind-to", "none",
                *OPENMPI_SETTINGS[name], "-np", str(ranks),
                f"{build}/compare/contestant.openmpi", folder]
    if name == "mpich":
        return ["mpirun.mpich", "-np", str(ranks), f"{build}/compare/contestant.mpich", folder]
    if name in OPTIONAL:
        variables = [text.format(build=os.path.abspath(build)) for text in OPTIONAL[name]]
        launcher = ([f"{build}/compare/venv/bin/mpiexec.hydra", "-n", str(ranks)]
                    if name == "intel_mpi" else
                    [f"{release}/rondo", "run", "-n", str(ranks), "--no-prefix", "--"])
        return ["env", *variables, *launcher, f"{build}/compare/contestant.{name}", folder]
    if name == "rondo_threads":
        return [f"{release}/rondo_contestant", folder, "--threads", str(ranks)]
    if name in ("rondo", "rondo_alloc"):
        more = ["--alloc"] if name == "rondo_alloc" else []
        return [f"{release}/rondo", "run", "-n", str(ranks), "--no-prefix", "--",
                f"{release}/rondo_contestant", folder, *more]
    return [f"{release}/own_loops", folder, str(ranks), name]


class Group:
    def __init__(self, name, ranks, build):
        self.name, self.ranks, self.build = name, ranks, build
        self.folder = tempfile.mkdtemp(prefix=f"rondo-compare-{name}-")
        self.patience = PATIENCE
        self.estimates = {}  # (operation, bytes) -> seconds per call
        pipes = []
        for r in range(ranks):
            for way in ("in", "out"):
                path = f"{self.folder}/{way}.{r}"
                os.mkfifo(path)
                # Opened for reading and writing, so that neither side waits for the other's open.
                pipes.append(os.open(path, os.O_RDWR | os.O_CLOEXEC))
        self.inputs, self.outputs = pipes[0::2], pipes[1::2]
        self.log = open(f"{self.folder}/log", "w+", encoding="utf-8")
        self.launcher = subprocess.Popen(
            self.command(), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            start_new_session=True)
        try:
            self.answers()
            self.joined = self.ask("join") if name in RONDO else []
        except ContestantFailed:
            self.close()
            raise

    def command(self):
        return command_of(self.name, self.ranks, self.folder, self.build)

    def ask(self, line):
        for pipe in self.inputs:
            os.write(pipe, (line + "\n").encode())
        return self.answers()

    def answers(self):
        """One line from every rank; a list of numbers each, without the leading word."""
        lines = [b""] * self.ranks
        waiting = {pipe: r for r, pipe in enumerate(self.outputs)}
        until = time.monotonic() + self.patience
        while waiting:
            ready, _, _ = select.select(list(waiting), [], [], 0.5)
            for pipe in ready:
                r = waiting[pipe]
                lines[r] += os.read(pipe, 65536)
                if lines[r].endswith(b"\n"):
                    del waiting[pipe]
            if not ready and self.launcher.poll() is not None:
                raise ContestantFailed(f"{self.name} on {self.ranks} ranks: {self.last_words()}")
            if time.monotonic() > until:
                raise NoAnswer(f"{self.name} on {self.ranks} ranks: no answer in "
                               f"{self.patience:.0f} s. {self.last_words()}")
        texts = [line.decode().strip() for line in lines]
        for text in texts:
            if text.startswith("error"):
                raise ContestantFailed(f"{self.name} on {self.ranks} ranks: {text}")
        return [[float(word) for word in text.split()[1:]] for text in texts]

    def measure(self, operation, size, budget, prefix="", calls=None):
        """Median over the blocks of the slowest rank, in seconds per call; takes about `budget`
        seconds."""
        key = (prefix, operation, size)
        if key not in self.estimates:
            self.estimates[key] = self.first_estimate(f"{prefix}{operation} {size}", budget)
        total = min(max(int(budget / max(self.estimates[key], 1e-8)), 3), 2000000)
        blocks = min(total, 15)
        per_block = calls or max(total // blocks, 1)
        warm = max(total // 10, 1)
        self.estimates[key] = self.median(
            f"{prefix}{operation} {size} {blocks} {per_block} {warm}")
        return self.estimates[key]

    def first_estimate(self, what, budget):
        """Seconds per call, from increasing numbers of calls: a root's first calls can be free
        until its peers' buffers are full."""
        calls = 1
        seconds = self.median(f"{what} 3 1 2")
        while seconds * 3 * calls < budget / 4 and calls < 4096:
            calls *= 16
            seconds = self.median(f"{what} 3 {calls} 0")
        return seconds

    def median(self, line):
        slowest = sorted(max(block) for block in zip(*self.ask(line)))
        return slowest[len(slowest) // 2]

    def pids(self):
        """The processes of the group: those of its session."""
        found = []
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and os.getsid(int(entry)) == self.launcher.pid:
                    found.append(int(entry))
            except ProcessLookupError:
                continue
        return found

    def last_words(self):
        self.log.flush()
        self.log.seek(0)
        return self.log.read()[-600:].strip() or "It printed nothing."

    def close(self, hangs=False):
        try:
            for pipe in self.inputs:
                os.write(pipe, b"quit\n")
        except OSError:
            pass
        try:
            self.launcher.wait(timeout=0 if hangs else 5)
        except subprocess.TimeoutExpired:
            for pid in self.pids():
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.kill(pid, signal.SIGKILL)
            self.launcher.wait()
        for pipe in self.inputs + self.outputs:
            os.close(pipe)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
