# SPDX-License-Identifier: Apache-2.0
"""PyTorch on Rondo in place of NCCL: several processes on one GPU, all that programs do with them.

  LD_PRELOAD=build/cuda/lib/libnccl.so.2 python3 tests/gpu/torch_check.py --ranks 4
  RONDO_LIBRARY=.../librondo.so python3 tests/gpu/torch_check.py --ranks 2 --device cpu

Every rank sets device 0. With --kill the last rank ends itself: the others must get an error;
with --only graphs,groups only these checks run. symmetric and symmetric_sums run only so: torch's
symmetric memory with its NCCL back end. With --device cpu the backend is rondo: the same checks,
less graphs, symmetric memory and the library's place. Ends with 77 and the reason where there is no
device, or torch has no such memory. A rank that takes long prints where it is.
"""

import argparse
import contextlib
import ctypes
import faulthandler
import os
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta

import symmetric_memory
import torch
import torch.distributed as dist
from torch import nn

SECONDS = int(os.environ.get("RONDO_CHECK_SECONDS", "20"))
REDUCED = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64,
           torch.uint8, torch.int8]  # fmt: skip
MOVED = [*REDUCED, torch.bool, torch.complex64]
COUNTS = (1, 17, 100_000)
FLOAT32, SUM = 7, 0


class Checks(symmetric_memory.Checks):
    def __init__(self, rank: int, size: int, device: str) -> None:
        self.rank, self.size, self.device = rank, size, torch.device(device)

    def of(self, rank: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        return ((torch.arange(count, device=self.device) + rank) % 5).to(dtype)

    def the_library_in_use_is_ours(self) -> None:
        if self.device.type != "cuda":
            return
        file = file_of("libtorch_cuda.so", "ncclAllReduce")
        assert os.path.realpath(file) == os.path.realpath(os.environ["LD_PRELOAD"]), file
        assert torch.cuda.nccl.unique_id().startswith(b"RondoID")

    def it_counts_the_calls_that_torch_makes(self) -> None:
        before = calls_of("ncclAllReduce"), calls_of("ncclAllGather")
        for count in range(1, 6):
            dist.all_reduce(torch.ones(count, device=self.device))
        everything = torch.empty(self.size, device=self.device)
        dist.all_gather_into_tensor(everything, torch.ones(1, device=self.device))
        after = calls_of("ncclAllReduce"), calls_of("ncclAllGather")
        assert after == (before[0] + 5, before[1] + 1), (before, after)

    def reductions(self) -> None:
        for dtype in REDUCED:
            for count in COUNTS:
                whole = sum(self.of(r, count, dtype).double() for r in range(self.size)).to(dtype)
                tensor = self.of(self.rank, count, dtype)
                dist.all_reduce(tensor)
                assert torch.equal(tensor, whole), (dtype, count)
                work = dist.all_reduce(tensor, dist.ReduceOp.MAX, async_op=True)
                work.wait()
                assert torch.equal(tensor, whole), (dtype, count)
                tensor = self.of(self.rank, count, dtype)
                dist.reduce(tensor, 0)
                assert self.rank != 0 or torch.equal(tensor, whole)
                part = torch.empty(count, dtype=dtype, device=self.device)
                dist.reduce_scatter_tensor(part, self.of(self.rank, count, dtype).repeat(self.size))
                assert torch.equal(part, whole)

    def moves(self) -> None:
        for dtype in MOVED:
            for count in COUNTS:
                everything = [self.of(r, count, dtype) for r in range(self.size)]
                mine = everything[self.rank].clone()
                flat = torch.empty(count * self.size, dtype=dtype, device=self.device)
                dist.all_gather_into_tensor(flat, mine)
                assert torch.equal(flat, torch.cat(everything)), (dtype, count)
                parts = [torch.empty_like(mine) for _ in range(self.size)]
                dist.all_gather(parts, mine)
                assert torch.equal(torch.cat(parts), flat)
                dist.broadcast(mine, self.size - 1)
                assert torch.equal(mine, everything[-1])
                dist.all_to_all_single(flat, torch.cat([everything[self.rank]] * self.size))
                assert torch.equal(flat, torch.cat(everything))
        dist.barrier()

    def messages(self) -> None:
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        for count in COUNTS:
            mine = self.of(self.rank, count, torch.float32)
            theirs = torch.empty_like(mine)
            works = dist.batch_isend_irecv(
                [dist.P2POp(dist.isend, mine, after), dist.P2POp(dist.irecv, theirs, before)]
            )
            for work in works:
                work.wait()
            assert torch.equal(theirs, self.of(before, count, torch.float32))

    def groups(self) -> None:
        if self.size > 1:
            halves = [
                dist.new_group(list(range(first, self.size, 2))) for first in range(2)
            ]  # split from the world if torch does so
            total = torch.ones(5, device=self.device)
            dist.all_reduce(total, group=halves[self.rank % 2])
            assert total[0] == len(range(self.rank % 2, self.size, 2))
        tensors = [torch.ones(n, device=self.device) for n in (1, 10, 1000)]
        with dist._coalescing_manager(device=self.device, async_ops=True) as together:
            for tensor in tensors:
                dist.all_reduce(tensor)
        together.wait()
        assert all((tensor == self.size).all() for tensor in tensors)

    def graphs(self) -> None:
        if self.device.type != "cuda":
            return
        x = torch.ones(1000, device=self.device)
        dist.all_reduce(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x.fill_(1)
            dist.all_reduce(x)
            x.add_(1)
            dist.all_reduce(x)
        for _ in range(10):
            graph.replay()
            dist.all_reduce(torch.ones(10, device=self.device))
        torch.cuda.synchronize()
        assert (x == (self.size + 1) * self.size).all()
        self.graphs_of_all_collectives()

    def graphs_of_all_collectives(self) -> None:
        """Captured once, replayed on other inputs: what a compiled training step does."""
        mine = torch.zeros(6000, device=self.device)
        everything = torch.empty(6000 * self.size, device=self.device)
        part = torch.empty(6000, device=self.device)
        exchanged = torch.empty_like(everything)
        root = torch.empty_like(mine)

        def step() -> None:
            dist.all_gather_into_tensor(everything, mine)
            dist.reduce_scatter_tensor(part, everything)
            dist.all_to_all_single(exchanged, everything)
            root.copy_(mine)
            dist.broadcast(root, self.size - 1)

        step()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        for turn in range(3):
            mine.fill_(self.rank + turn)
            graph.replay()
            torch.cuda.synchronize()
            by_rank = torch.arange(self.size, device=self.device) + float(turn)
            assert torch.equal(everything.view(self.size, -1)[:, 0], by_rank)
            assert (part == self.size * (self.rank + turn)).all(), turn
            assert (exchanged == self.rank + turn).all(), turn
            assert (root == self.size - 1 + turn).all(), turn

    def training(self) -> None:
        generator = torch.Generator().manual_seed(1)
        batch = torch.randn(8 * self.size, 16, generator=generator).to(self.device)
        wanted = train(self.model(), batch)
        mine = batch.chunk(self.size)[self.rank]
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        ids = [0] if self.device.type == "cuda" else None
        ddp = nn.parallel.DistributedDataParallel(self.model(), device_ids=ids)
        sharded = fully_shard(self.model(), mesh=init_device_mesh(self.device.type, (self.size,)))
        for model in (ddp, sharded):
            losses = torch.tensor(train(model, mine), device=self.device)
            dist.all_reduce(losses, dist.ReduceOp.AVG)
            torch.testing.assert_close(losses.cpu(), torch.tensor(wanted))

    def model(self) -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)).to(self.device)

    def as_vllm_calls_it(self) -> None:
        """pynccl: the C functions by ctypes, torch for memory and streams."""
        library = our_library()
        ticket = (ctypes.c_char * 128)()
        check(library.ncclGetUniqueId(ticket))
        tickets = [ticket.raw]
        dist.broadcast_object_list(tickets, 0, device=self.device)

        class Ticket(ctypes.Structure):
            _fields_ = [("internal", ctypes.c_byte * 128)]

        comm, stream = ctypes.c_void_p(), None
        ticket = Ticket.from_buffer_copy(tickets[0])
        check(library.ncclCommInitRank(ctypes.byref(comm), self.size, ticket, self.rank))
        if self.device.type == "cuda":
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        tensor = torch.full((1000,), float(self.rank), device=self.device)
        place = ctypes.c_void_p(tensor.data_ptr())
        count = ctypes.c_size_t(tensor.numel())
        check(library.ncclAllReduce(place, place, count, FLOAT32, SUM, comm, stream))
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        assert (tensor == sum(range(self.size))).all()
        check(library.ncclCommDestroy(comm))


HELPERS = ("__init__", "of", "model", "graphs_of_all_collectives")


def check(code: int) -> None:
    assert code == 0, f"result {code}"


def our_library() -> ctypes.CDLL:
    return ctypes.CDLL(os.environ.get("LD_PRELOAD") or os.environ["RONDO_LIBRARY"])


def calls_of(function: str) -> int:
    calls = ctypes.c_uint64()
    check(our_library().rondoGetCallCount(function.encode(), ctypes.byref(calls)))
    return calls.value


def train(model: nn.Module, batch: torch.Tensor) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def file_of(library: str, name: str) -> str:
    """The file that a function of a library of torch's is taken from."""

    class Found(ctypes.Structure):
        _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                    ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p)]  # fmt: skip

    handle = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", library))
    address, found = ctypes.cast(getattr(handle, name), ctypes.c_void_p), Found()
    assert ctypes.CDLL(None).dladdr(address, ctypes.byref(found)), name
    return found.file.decode()


def join(options: argparse.Namespace, eager: bool) -> Checks:
    """Each time at another port: at the port of the group that a rank has left, it may find the
    store of rank 0, which has not left yet, and tries for long to join there."""
    os.environ["MASTER_PORT"] = os.environ["CHECK_PORTS"].split(",")[eager]
    gpu = options.device == "cuda"
    if gpu:
        torch.cuda.set_device(0)
    else:
        import rondo.torch  # noqa: F401
    dist.init_process_group(
        "nccl" if gpu else "rondo",
        timeout=timedelta(seconds=SECONDS),
        device_id=torch.device("cuda:0") if gpu and eager else None,
    )
    device = "cuda:0" if gpu else "cpu"
    return Checks(dist.get_rank(), dist.get_world_size(), device)


def be_a_rank(options: argparse.Namespace) -> None:
    # Some releases of torch keep device communicators by the name of their group: not another one.
    for eager in (True,) if symmetric_memory.asked(options.only) else (False, True):
        checks = join(options, eager)
        names = [name for name, f in vars(Checks).items() if callable(f) and name not in HELPERS]
        if eager:
            names = ["reductions", "groups"]
        for name in options.only or names:
            begin = time.monotonic()
            getattr(checks, name)()
            if checks.rank == 0:
                print(f"{name}: passed in {time.monotonic() - begin:.1f} s", flush=True)
        dist.destroy_process_group()
        if checks.rank == 0:
            print("the group is destroyed", flush=True)


def be_a_survivor(options: argparse.Namespace) -> None:
    """Ends with 0 where the death of the last rank is an error, by whatever way torch tells it."""
    checks = join(options, eager=True)
    dist.all_reduce(torch.ones(4, device=checks.device))
    if checks.rank == checks.size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        for _ in range(1000):
            dist.all_reduce(torch.ones(4, device=checks.device))
            if options.device == "cuda":
                torch.cuda.synchronize()
    except (RuntimeError, dist.DistError) as error:
        print(f"rank {checks.rank} got: {str(error).splitlines()[0]}", flush=True)
        dist.distributed_c10d._abort_process_group()
        os._exit(0)
    os._exit(3)


def free_ports(count: int) -> list[str]:
    """Outside the kernel's ephemeral range: no other connection can take them before their use."""
    found, port = [], 15000 + os.getpid() * 37 % 15000
    while len(found) < count:
        port += 1
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            found.append(str(port))
    return found


def start(options: argparse.Namespace) -> int:
    ports = free_ports(2)
    environment = {
        **os.environ, "PYTHONWARNINGS": "ignore", "WORLD_SIZE": str(options.ranks),
        "MASTER_ADDR": "127.0.0.1", "CHECK_PORTS": ",".join(ports),
    }  # fmt: skip
    ranks = [
        subprocess.Popen([sys.executable, *sys.argv], env={**environment, "RANK": str(rank)})
        for rank in range(options.ranks)
    ]
    codes = [rank.wait() for rank in ranks]
    print(f"torch {torch.__version__}, {options.ranks} ranks: exit codes {codes}")
    if options.kill:  # torch's watchdog may see the fault first, and aborts the process
        raised = all(code in (0, -signal.SIGABRT) for code in codes[:-1])
        return 0 if raised and codes[-1] == -signal.SIGKILL else 1
    return 1 if any(codes) else 0


def lacking(options: argparse.Namespace) -> str:
    """Why torch cannot do it here; "": it can."""
    if options.device == "cuda" and not torch.cuda.is_available():
        return "sees no device"
    return symmetric_memory.lacking(options.only, options.device)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--only", type=lambda names: names.split(","), default=[])
    options = parser.parse_args()
    if "RANK" not in os.environ:
        if why := lacking(options):
            print(f"torch {torch.__version__} {why}")
            return 77
        return start(options)
    faulthandler.dump_traceback_later(2 * SECONDS, exit=False)
    (be_a_survivor if options.kill else be_a_rank)(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
