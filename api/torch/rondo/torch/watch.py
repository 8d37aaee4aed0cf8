# SPDX-License-Identifier: Apache-2.0
"""Under `rondo watch`: rondo ps and rondo trace see the calls of torch's own gloo groups.

    rondo watch -- torchrun --nproc-per-node 4 train.py
    rondo ps

A group keeps torch's ProcessGroupGloo, which moves all data. Around it stands a WatchedGroup, which
reports each call and its end to librondo-watch.so, as NVIDIA's NCCL does (call_events.py). Calls
that C++ makes pass through it too, as those of DistributedDataParallel. Groups with other backends
beside gloo are left alone. Guarantees: results and errors are gloo's; what fails here leaves the
group unwatched, after one line on stderr. Cost: docs/operate/watch.md.
"""

from __future__ import annotations

import functools
import random
import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroupGloo
from torch.distributed import distributed_c10d as c10d

from rondo.torch.call_events import Record, elements, plugin

# By method: the collective, and the position of the argument with its data. None: ranks may give
# different counts, which are not reported.
CALLS = {
    "_allgather_base": ("AllGather", 1),
    "_reduce_scatter_base": ("ReduceScatter", 0),
    "all_gather_single": ("AllGather", 1),
    "all_gather_single_coalesced": ("AllGather", 1),
    "all_to_all_single": ("AlltoAll", None),
    "allgather": ("AllGather", 1),
    "allgather_coalesced": ("AllGather", 1),
    "allgather_into_tensor_coalesced": ("AllGather", 1),
    "allreduce": ("AllReduce", 0),
    "allreduce_coalesced": ("AllReduce", 0),
    "alltoall": ("AlltoAll", None),
    "alltoall_base": ("AlltoAll", None),
    "barrier": ("Barrier", None),
    "broadcast": ("Broadcast", 0),
    "gather": ("Gather", 1),
    "reduce": ("Reduce", 0),
    "reduce_scatter": ("ReduceScatter", 0),
    "reduce_scatter_single": ("ReduceScatter", 0),
    "reduce_scatter_single_coalesced": ("ReduceScatter", 0),
    "reduce_scatter_tensor_coalesced": ("ReduceScatter", 0),
    "scatter": ("Scatter", 0),
}
MESSAGES = {"send": b"Send", "recv": b"Recv", "recv_anysource": b"Recv"}
# What a group passes on to gloo unseen.
PASSED = (
    "_end_coalescing", "_get_sequence_number_for_group", "_set_sequence_number_for_group",
    "_start_coalescing", "monitored_barrier", "set_timeout",
)  # fmt: skip


class WatchedWork(dist.Work):
    """A call of gloo without a future that tells its end: a message, a reduce-scatter."""

    def __init__(self, work: dist.Work, end: Callable[[], None]) -> None:
        super().__init__()
        self._work, self._end = work, end

    def _ended(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end()

    def wait(self, *timeout: Any) -> bool:
        done = self._work.wait(*timeout)
        self._ended()
        return done

    def is_completed(self) -> bool:
        done = self._work.is_completed()
        if done:
            self._ended()
        return done

    def is_success(self) -> bool:
        return self._work.is_success()

    def exception(self) -> Any:
        return self._work.exception()

    def source_rank(self) -> int:
        return self._work.source_rank()

    _source_rank = source_rank

    def result(self) -> list[torch.Tensor]:
        return self._work.result()

    def synchronize(self) -> None:
        self.wait()


def agreed_hash(store: dist.Store) -> int:
    """A number for the group: that of the rank that comes first. No rank waits for another one,
    which may not be watched."""
    mine = str(random.SystemRandom().getrandbits(64))
    return int(store.compare_set("rondo_watch", "", mine))


class WatchedGroup(dist.ProcessGroup):
    """In the place of ProcessGroupGloo while torch makes a group."""

    def __init__(self, store: dist.Store, rank: int, size: int, *rest: Any, **named: Any) -> None:
        super().__init__(rank, size)
        self._gloo = ProcessGroupGloo(store, rank, size, *rest, **named)
        self._store, self._name, self._description = store, "", ""
        gloo = dist.ProcessGroup.BackendType.GLOO
        self._register_backend(torch.device("cpu"), gloo, self._gloo)
        self._set_default_backend(gloo)
        self._record: Record | None = None

    def _set_group_name(self, name: str) -> None:
        self._name = name
        super()._set_group_name(name)

    def _set_group_desc(self, description: str) -> None:
        """torch's last step of making a group."""
        self._description = description
        super()._set_group_desc(description)
        try:
            named = description if description not in ("", "undefined") else f"group {self._name}"
            agreed = agreed_hash(self._store)
            self._record = Record(agreed, named, self.rank(), self.size())
            weakref.finalize(self, self._record.end)
        except Exception as error:  # the job goes on
            explain(repr(error))

    @property
    def group_name(self) -> str:
        return self._name

    pg_name = group_name

    @property
    def group_desc(self) -> str:
        return self._description

    @property
    def options(self) -> Any:
        return self._gloo.options

    def name(self) -> str:
        return self._gloo.name()

    getBackendName = _get_backend_name = name

    def _get_backend(self, device: torch.device) -> ProcessGroupGloo:
        return self._gloo

    get_backend = _get_backend

    def get_group_store(self) -> dist.Store:
        return self._store

    def shutdown(self) -> None:
        self._leave()
        self._gloo.shutdown()

    def abort(self) -> None:
        self._leave()
        self._gloo.abort()

    def _leave(self) -> None:
        if self._record is not None:
            self._record.end()
            self._record = None


def root_in(given: tuple) -> int:
    return getattr(given[-1], "rootRank", -1) if given else -1


def ends_with(work: dist.Work, end: Callable[[], None]) -> dist.Work:
    """What gloo makes of several calls has no future: it ends for who waits."""
    try:
        future = work.get_future()
    except RuntimeError:
        return WatchedWork(work, end)
    future.add_done_callback(lambda _: end())
    return work


def collective(method: str, function: str, position: int | None) -> Callable:
    kind_of_call = function.encode()

    def watched(self: WatchedGroup, *given: Any, **named: Any) -> Any:
        call = getattr(self._gloo, method, None) or getattr(self._gloo, OLDER[method])
        if self._record is None:
            return call(*given, **named)
        count, kind = 0, b"ncclUint8"
        if position is not None and len(given) > position:
            count, kind = elements(given[position])
        end = self._record.begin(kind_of_call, count, kind, root_in(given))
        try:
            work = call(*given, **named)
        except BaseException:
            end()
            raise
        return ends_with(work, end)

    return watched


def message(method: str, function: bytes) -> Callable:
    def watched(self: WatchedGroup, tensors: list[torch.Tensor], *given: Any) -> Any:
        call = getattr(self._gloo, method)
        if self._record is None:
            return call(tensors, *given)
        peer = given[0] if method != "recv_anysource" else -1
        end = self._record.begin_message(function, *elements(tensors), peer)
        try:
            return WatchedWork(call(tensors, *given), end)
        except BaseException:
            end()
            raise

    return watched


def passed(method: str) -> Callable:
    def on(self: WatchedGroup, *given: Any, **named: Any) -> Any:
        return getattr(self._gloo, method)(*given, **named)

    return on


# Names of torch 2.14 and newer that a backend may have by an older one.
OLDER = {
    "all_gather_single": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
}


def add_methods() -> None:
    """torch's C++ finds methods by name: only those that this torch has, and gloo too."""
    made = {name: collective(name, *call) for name, call in CALLS.items()}
    made |= {name: message(name, function) for name, function in MESSAGES.items()}
    made |= {name: passed(name) for name in PASSED}
    for name, method in made.items():
        in_gloo = hasattr(ProcessGroupGloo, name) or hasattr(ProcessGroupGloo, OLDER.get(name, ""))
        if hasattr(dist.ProcessGroup, name) and in_gloo:
            method.__name__ = name
            setattr(WatchedGroup, name, method)


# ---- torch.distributed ----


@functools.cache
def explain(why: str) -> None:
    print(f"rondo: torch's gloo groups are not watched: {why}", file=sys.stderr)


def is_gloo_alone(backend: Any) -> bool:
    parts = [part.split(":", 1)[-1] for part in str(backend).lower().split(",")]
    if parts == ["undefined"] or backend is None:  # torch takes gloo, and NCCL where there are GPUs
        return not torch.cuda.is_available()
    return set(parts) == {"gloo"}


def install() -> None:
    """From now on torch's groups of gloo alone are watched."""
    plugin()
    add_methods()
    helper = c10d._new_process_group_helper

    @functools.wraps(helper)
    def new_group_helper(*given: Any, **named: Any) -> Any:
        backend = named.get("backend", given[3] if len(given) > 3 else None)
        if not is_gloo_alone(backend):
            return helper(*given, **named)
        c10d.ProcessGroupGloo = WatchedGroup
        try:
            return helper(*given, **named)
        finally:
            c10d.ProcessGroupGloo = ProcessGroupGloo

    c10d._new_process_group_helper = new_group_helper
