# SPDX-License-Identifier: Apache-2.0
"""Collectives that only move data, the barrier and messages with tags, mapped to C calls.

Any element type can be moved. Methods have torch's names, which differ between torch versions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from rondo.torch.calls import profiled
from rondo.torch.hooks import older
from rondo.torch.library import check, lib, moved, moved_as
from rondo.torch.memory import Buffers, counts_of, expect, same_sizes
from rondo.torch.traced import untraced
from rondo.torch.work import QueuedWork

BROADCAST, BARRIER, ALLTOALL = (
    c10d.BroadcastOptions(),
    c10d.BarrierOptions(),
    c10d.AllToAllOptions(),
)
GATHER, ALLGATHER, SCATTER = c10d.GatherOptions(), c10d.AllgatherOptions(), c10d.ScatterOptions()


class Moves:
    @profiled("broadcast", 0, usual="broadcast")
    def broadcast(self, tensors: list[torch.Tensor], opts=BROADCAST) -> dist.Work:
        comm, buffers, root = self._comm, Buffers(), opts.rootRank
        calls = []
        for tensor in tensors:
            dense = buffers.written(tensor)
            calls.append((dense.data_ptr(), *moved(dense)))

        def issue(stream) -> int:
            for place, count, kind in calls:
                if code := lib.ncclBroadcast(place, place, count, kind, root, comm, stream):
                    return code
            return 0

        return self._run(opts, issue, buffers, tensors)

    # ---- all_gather ----

    @profiled("all_gather", 1)
    def allgather(self, outputs: list[list[torch.Tensor]], inputs, opts=ALLGATHER) -> dist.Work:
        (parts,), (tensor,) = outputs, inputs
        expect(len(parts) == self._size, f"{len(parts)} outputs for {self._size} ranks")
        expect(
            parts[self._rank].numel() == tensor.numel(),
            f"all_gather of {tensor.numel()} elements, but output {self._rank} (this rank's) has "
            f"{parts[self._rank].numel()}",
        )
        comm, buffers = self._comm, Buffers()
        source, flat = buffers.read(tensor), buffers.written_all(parts)
        count, kind = moved(source)
        place, out = source.data_ptr(), flat.data_ptr()
        even = same_sizes(parts)
        counts, starts = counts_of([moved(part)[0] for part in parts])

        def issue(stream) -> int:
            if even:
                return lib.ncclAllGather(place, out, count, kind, comm, stream)
            return lib.rondoAllGatherv(place, count, out, counts, starts, kind, comm, stream)

        return self._run(opts, issue, buffers, parts)

    @profiled("all_gather", 1)
    def allgather_coalesced(self, output_lists, inputs, opts=ALLGATHER) -> dist.Work:
        """Outputs are one list per rank, in the order of the inputs."""
        works = [self.allgather([list(o)], [i], opts) for o, i in zip(zip(*output_lists), inputs)]
        return self._join(works)

    @profiled("all_gather", 1, nccl="_all_gather_base", usual="all_gather", sized=True)
    def all_gather_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts=ALLGATHER
    ) -> dist.Work:
        expect(
            output.numel() == tensor.numel() * self._size and output.dtype == tensor.dtype,
            f"all_gather of {tensor.numel()} x {tensor.dtype} from {self._size} ranks into "
            f"{output.numel()} x {output.dtype}",
        )
        comm, buffers = self._comm, Buffers()
        source, target = buffers.read(tensor), buffers.written(output)
        count, kind = moved(source)
        place, out = source.data_ptr(), target.data_ptr()

        def issue(stream) -> int:
            return lib.ncclAllGather(place, out, count, kind, comm, stream)

        return self._run(opts, issue, buffers, [output])

    _allgather_base = all_gather_single

    @profiled("all_gather", 1, nccl="all_gather_into_tensor_coalesced")
    def all_gather_single_coalesced(self, outputs, inputs, opts=ALLGATHER) -> dist.Work:
        return self._join([self.all_gather_single(o, i, opts) for o, i in zip(outputs, inputs)])

    allgather_into_tensor_coalesced = older(
        "allgather_into_tensor_coalesced", all_gather_single_coalesced
    )

    # ---- to and from one rank ----

    @profiled("gather", 1)
    def gather(self, outputs, inputs, opts=GATHER) -> dist.Work:
        (tensor,), root = inputs, opts.rootRank
        comm, buffers, results, out = self._comm, Buffers(), [], None
        source = buffers.read(tensor)
        count, kind = moved(source)
        if self._rank == root:
            results = outputs[0]
            expect(len(results) == self._size, f"{len(results)} outputs for {self._size} ranks")
            expect(
                same_sizes(results) and results[0].numel() == tensor.numel(),
                f"gather takes {tensor.numel()} elements from every rank into outputs of "
                f"{[part.numel() for part in results]}",
            )
            out = buffers.written_all(results).data_ptr()
        place = source.data_ptr()

        def issue(stream) -> int:
            return lib.ncclGather(place, out, count, kind, root, comm, stream)

        return self._run(opts, issue, buffers, results)

    @profiled("gather", 1)
    def gather_single(self, output: torch.Tensor, tensor: torch.Tensor, opts=GATHER) -> dist.Work:
        """Gathers into one tensor at the root; the other ranks' outputs are ignored."""
        comm, buffers, root, out = self._comm, Buffers(), opts.rootRank, None
        source, results = buffers.read(tensor), []
        count, kind = moved(source)
        if self._rank == root:
            expect(
                output.numel() == tensor.numel() * self._size and output.dtype == tensor.dtype,
                f"gather of {tensor.numel()} x {tensor.dtype} from {self._size} ranks into "
                f"{output.numel()} x {output.dtype}",
            )
            results = [output]
        if self.has_torch_hooks is not False and self.passes_hooks():
            # torch's C++ cannot pass this call to Python, so its hooks get a gather.
            parts = [list(part.view(self._size, -1).unbind()) for part in results]
            return self.gather(parts, [tensor], opts)
        if self._rank == root:
            out = buffers.written(output).data_ptr()
        place = source.data_ptr()

        def issue(stream) -> int:
            return lib.ncclGather(place, out, count, kind, root, comm, stream)

        return self._run(opts, issue, buffers, results)

    gather_into_tensor = gather_single

    @profiled("scatter", 1)
    def scatter(self, outputs, inputs, opts=SCATTER) -> dist.Work:
        (output,), root = outputs, opts.rootRank
        comm, buffers, place = self._comm, Buffers(), None
        target = buffers.written(output)
        count, kind = moved(target)
        if self._rank == root:
            parts = inputs[0]
            expect(len(parts) == self._size, f"{len(parts)} inputs for {self._size} ranks")
            expect(
                same_sizes(parts) and parts[0].numel() == output.numel(),
                f"scatter gives every rank {output.numel()} elements, but has inputs of "
                f"{[part.numel() for part in parts]}",
            )
            place = buffers.read_all(parts).data_ptr()
        out = target.data_ptr()

        def issue(stream) -> int:
            return lib.ncclScatter(place, out, count, kind, root, comm, stream)

        return self._run(opts, issue, buffers, [output])

    # ---- all_to_all ----

    @profiled("all_to_all", 1)
    def alltoall(self, outputs, inputs, opts=ALLTOALL) -> dist.Work:
        """Each rank knows only its own sizes, so this is always the uneven call."""
        for what, tensors in (("outputs", outputs), ("inputs", inputs)):
            expect(len(tensors) == self._size, f"{len(tensors)} {what} for {self._size} ranks")
        buffers = Buffers()
        source, target = buffers.read_all(inputs), buffers.written_all(outputs)
        sizes = [t.numel() for t in inputs], [t.numel() for t in outputs]
        return self._all_to_all_v(source, target, *sizes, opts, buffers, outputs)

    @profiled("all_to_all", 1, usual="all_to_all", sized=True)
    def all_to_all_single(
        self, output, tensor, output_splits, input_splits, opts=ALLTOALL
    ) -> dist.Work:
        comm, buffers = self._comm, Buffers()
        source, target = buffers.read(tensor), buffers.written(output)
        if output_splits or input_splits:
            sizes = [
                self._split(t, splits, which)
                for t, splits, which in (
                    (tensor, input_splits, "input"),
                    (output, output_splits, "output"),
                )
            ]
            return self._all_to_all_v(source, target, *sizes, opts, buffers, [output])
        for t, which in ((tensor, "input"), (output, "output")):
            expect(
                t.numel() % self._size == 0,
                f"{which} of {t.numel()} elements is not divisible by {self._size} ranks",
            )
        expect(tensor.numel() == output.numel(), f"{tensor.numel()} elements into {output.numel()}")
        count, kind = moved(source)
        count //= self._size
        place, out = source.data_ptr(), target.data_ptr()

        def issue(stream) -> int:
            return lib.ncclAlltoAll(place, out, count, kind, comm, stream)

        return self._run(opts, issue, buffers, [output])

    alltoall_base = older("alltoall_base", all_to_all_single)

    def _split(self, tensor: torch.Tensor, splits: list[int], which: str) -> list[int]:
        """Elements for each rank; torch counts splits in rows."""
        rows = tensor.shape[0] if tensor.dim() else 1
        splits = list(splits) or [rows // self._size] * self._size
        expect(len(splits) == self._size, f"{len(splits)} {which} splits for {self._size} ranks")
        expect(sum(splits) == rows, f"{which} splits {splits} do not add up to {rows} rows")
        width = tensor.numel() // rows if rows else 0
        return [split * width for split in splits]

    def _all_to_all_v(self, source, target, sent, received, opts, buffers, results) -> dist.Work:
        comm = self._comm
        kind, scale = moved_as(source.dtype)
        send_counts, send_starts = counts_of([count * scale for count in sent])
        counts, starts = counts_of([count * scale for count in received])
        place, out = source.data_ptr(), target.data_ptr()

        def issue(stream) -> int:
            return lib.rondoAllToAllv(
                place, send_counts, send_starts, out, counts, starts, kind, comm, stream
            )

        return self._run(opts, issue, buffers, results)

    @profiled("barrier", None)
    def barrier(self, opts=BARRIER) -> dist.Work:
        comm = self._comm
        with self._limited(None if opts.asyncOp else self._own_limit(opts)):
            return self._run(opts, lambda stream: lib.rondoBarrier(comm, stream), Buffers(), [])


# ---- messages ----

ANY_SOURCE = -1


@untraced
class MessageWork(QueuedWork):
    """A send is done when its bytes are buffered or sent, a receive when they have arrived."""

    _source = ANY_SOURCE

    def _at_end(self, request: int) -> None:
        source = ctypes.c_int()
        check(lib.rondoRequestSource(request, ctypes.byref(source)))
        self._source = source.value

    def _expire(self, seconds: float) -> None:
        request = self._request
        if request is not None:
            lib.rondoRequestCancel(request, seconds)

    def _source_rank(self) -> int:
        return self._source

    def source_rank(self) -> int:
        return self._source


class Messages:
    @profiled("send", 0, nccl=lambda group, given: f"send {group.rank()}->{given[1]}")
    def send(self, tensors: list[torch.Tensor], destination: int, tag: int = 0) -> dist.Work:
        buffers = Buffers()
        return self._message(lib.rondoIsend, buffers.read(*tensors), destination, tag, buffers, [])

    @profiled("recv", 0, nccl=lambda group, given: f"recv {group.rank()}<-{given[1]}")
    def recv(self, tensors: list[torch.Tensor], source: int, tag: int = 0) -> dist.Work:
        buffers = Buffers()
        dense = buffers.written(*tensors)
        return self._message(lib.rondoIrecv, dense, source, tag, buffers, tensors)

    @profiled("recvAnySource", 0)
    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> dist.Work:
        return self.recv(tensors, ANY_SOURCE, tag)

    def _message(
        self,
        start: Callable[..., int],
        dense: torch.Tensor,
        peer: int,
        tag: int,
        buffers: Buffers,
        results: list[torch.Tensor],
    ) -> dist.Work:
        request = ctypes.c_void_p()
        count, kind = moved(dense)
        check(start(dense.data_ptr(), count, kind, peer, tag, self._comm, ctypes.byref(request)))
        work = MessageWork(request.value, results, self._seconds)
        work.buffers, work.others_need_it = buffers, start is lib.rondoIsend
        return self._keep(work)
