"""The collectives of a group: which C call each of them is, on which memory.

Every method has torch's name and arguments; newer and older torch differ in names, so both are
here. Reductions work on elements, everything else only moves them.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from rondo.torch.buffers import Buffers, counts_of
from rondo.torch.elements import (
    TYPES,
    Op,
    kind_of,
    moved,
    moved_as,
    pre_mul_sum,
    reduction,
)
from rondo.torch.errors import check
from rondo.torch.library import lib
from rondo.torch.profile import profiled
from rondo.torch.sparse import all_reduce_sparse
from rondo.torch.work import FINISHED

ALLREDUCE, REDUCE, BROADCAST = (
    c10d.AllreduceOptions(),
    c10d.ReduceOptions(),
    c10d.BroadcastOptions(),
)
GATHER, ALLGATHER, SCATTER = c10d.GatherOptions(), c10d.AllgatherOptions(), c10d.ScatterOptions()
REDUCE_SCATTER, ALLTOALL = c10d.ReduceScatterOptions(), c10d.AllToAllOptions()
BARRIER = c10d.BarrierOptions()


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def plain(tensor: torch.Tensor) -> bool:
    """Can be given to the library as it is."""
    return tensor.is_cpu and tensor.dtype in TYPES and tensor.is_contiguous()


def same_sizes(tensors: list[torch.Tensor]) -> bool:
    return all(tensor.numel() == tensors[0].numel() for tensor in tensors)


def expect(holds: bool, text: str) -> None:
    if not holds:
        raise ValueError(f"rondo: {text}")


class Collectives:
    def _reduce_with(self, op, dtype: torch.dtype, call, opts, buffers, results) -> dist.Work:
        """call(number, stream), with the number of the operation in this communicator."""
        if kind_of(op) != Op.PREMUL_SUM:
            number = reduction(dtype, op)
            return self._run(opts, lambda stream: call(number, stream), buffers, results)
        number = pre_mul_sum(dtype, op.__getstate__()[1], self._comm)
        try:
            return self._run(opts, lambda stream: call(number, stream), buffers, results)
        finally:
            check(lib.ncclRedOpDestroy(number, self._comm))  # issued calls keep it

    @profiled
    def allreduce(self, tensors: list[torch.Tensor], opts=ALLREDUCE) -> dist.Work:
        first = tensors[0]
        if first.is_sparse:
            return all_reduce_sparse(self, tensors, opts)
        kind = kind_of(opts.reduceOp)
        if len(tensors) == 1 and kind != Op.PREMUL_SUM and self._runs_now(opts) and plain(first):
            place, op = first.data_ptr(), reduction(first.dtype, kind)
            code = lib.ncclAllReduce(
                place, place, first.numel(), TYPES[first.dtype], op, self._comm, None
            )
            check(code)
            return FINISHED
        comm, buffers, calls = self._comm, Buffers(), []
        for tensor in tensors:
            dense = buffers.written(as_real(tensor))
            calls.append((dense.data_ptr(), dense.numel(), TYPES.get(dense.dtype)))

        def call(op: int, stream) -> int:
            for place, count, kind in calls:
                if code := lib.ncclAllReduce(place, place, count, kind, op, comm, stream):
                    return code
            return 0

        return self._reduce_with(opts.reduceOp, tensors[0].dtype, call, opts, buffers, tensors)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts=ALLREDUCE) -> dist.Work:
        expect(len({t.dtype for t in tensors}) == 1, "coalesced tensors are of different types")
        return self.allreduce(tensors, opts)

    @profiled
    def reduce(self, tensors: list[torch.Tensor], opts=REDUCE) -> dist.Work:
        comm, buffers, root = self._comm, Buffers(), opts.rootRank
        (tensor,) = tensors
        at_root = self._rank == root
        dense = (buffers.written if at_root else buffers.read)(as_real(tensor))
        place, count, kind = dense.data_ptr(), dense.numel(), TYPES.get(dense.dtype)
        out = place if at_root else None

        def call(op: int, stream) -> int:
            return lib.ncclReduce(place, out, count, kind, op, root, comm, stream)

        return self._reduce_with(opts.reduceOp, tensor.dtype, call, opts, buffers, tensors)

    @profiled
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

    @profiled
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
        if same_sizes(parts):
            issue = lambda stream: lib.ncclAllGather(place, out, count, kind, comm, stream)
        else:
            counts, starts = counts_of([moved(part)[0] for part in parts])

            def issue(stream) -> int:
                return lib.rondoAllGatherv(place, count, out, counts, starts, kind, comm, stream)

        return self._run(opts, issue, buffers, parts)

    def allgather_coalesced(self, output_lists, inputs, opts=ALLGATHER) -> dist.Work:
        works = [self.allgather([list(o)], [i], opts) for o, i in zip(output_lists, inputs)]
        return self._join(works)

    @profiled
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

    def all_gather_single_coalesced(self, outputs, inputs, opts=ALLGATHER) -> dist.Work:
        return self._join([self.all_gather_single(o, i, opts) for o, i in zip(outputs, inputs)])

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    # ---- reduce_scatter ----

    @profiled
    def reduce_scatter(self, outputs, inputs, opts=REDUCE_SCATTER) -> dist.Work:
        (output,), (parts,) = outputs, inputs
        expect(len(parts) == self._size, f"{len(parts)} inputs for {self._size} ranks")
        expect(
            parts[self._rank].numel() == output.numel(),
            f"reduce_scatter of {parts[self._rank].numel()} elements for rank {self._rank} into "
            f"{output.numel()}",
        )
        comm, buffers = self._comm, Buffers()
        flat = buffers.read_all([as_real(part) for part in parts])
        target = buffers.written(as_real(output))
        place, out, kind = flat.data_ptr(), target.data_ptr(), TYPES.get(target.dtype)
        count = target.numel()
        if same_sizes(parts):
            call = lambda op, stream: lib.ncclReduceScatter(
                place, out, count, kind, op, comm, stream
            )
        else:
            counts, _ = counts_of([as_real(part).numel() for part in parts])

            def call(op: int, stream) -> int:
                return lib.rondoReduceScatterv(place, out, counts, kind, op, comm, stream)

        return self._reduce_with(opts.reduceOp, output.dtype, call, opts, buffers, [output])

    @profiled
    def reduce_scatter_single(self, output, tensor, opts=REDUCE_SCATTER) -> dist.Work:
        expect(
            tensor.numel() == output.numel() * self._size and output.dtype == tensor.dtype,
            f"reduce_scatter of {tensor.numel()} x {tensor.dtype} over {self._size} ranks into "
            f"{output.numel()} x {output.dtype}",
        )
        comm, buffers = self._comm, Buffers()
        source, target = buffers.read(as_real(tensor)), buffers.written(as_real(output))
        place, out, kind = source.data_ptr(), target.data_ptr(), TYPES.get(target.dtype)
        count = target.numel()

        def call(op: int, stream) -> int:
            return lib.ncclReduceScatter(place, out, count, kind, op, comm, stream)

        return self._reduce_with(opts.reduceOp, output.dtype, call, opts, buffers, [output])

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=REDUCE_SCATTER) -> dist.Work:
        return self._join([self.reduce_scatter_single(o, i, opts) for o, i in zip(outputs, inputs)])

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # ---- to and from one rank ----

    @profiled
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

    @profiled
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

    @profiled
    def alltoall(self, outputs, inputs, opts=ALLTOALL) -> dist.Work:
        """Each rank knows its own sizes alone, so that this is always the uneven call."""
        for what, tensors in (("outputs", outputs), ("inputs", inputs)):
            expect(len(tensors) == self._size, f"{len(tensors)} {what} for {self._size} ranks")
        buffers = Buffers()
        source, target = buffers.read_all(inputs), buffers.written_all(outputs)
        sizes = [t.numel() for t in inputs], [t.numel() for t in outputs]
        return self._all_to_all_v(source, target, *sizes, opts, buffers, outputs)

    @profiled
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
                f"{which} of {t.numel()} does not divide by {self._size}",
            )
        expect(tensor.numel() == output.numel(), f"{tensor.numel()} elements into {output.numel()}")
        count, kind = moved(source)
        count //= self._size
        place, out = source.data_ptr(), target.data_ptr()

        def issue(stream) -> int:
            return lib.ncclAlltoAll(place, out, count, kind, comm, stream)

        return self._run(opts, issue, buffers, [output])

    alltoall_base = all_to_all_single

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

    @profiled
    def barrier(self, opts=BARRIER) -> dist.Work:
        comm = self._comm
        with self._limited(None if opts.asyncOp else self._own_limit(opts)):
            return self._run(opts, lambda stream: lib.rondoBarrier(comm, stream), Buffers(), [])
