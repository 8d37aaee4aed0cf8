# SPDX-License-Identifier: Apache-2.0
"""RondoProcessGroup: torch.distributed's ProcessGroup over one communicator.

A blocking call runs on the caller's thread; all others go to the communicator's stream, a queue
served by a thread of the library. No Python thread moves data.
"""

from __future__ import annotations

import atexit
import ctypes
import multiprocessing.util
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType

from rondo.torch.groups import pass_monitored_barrier
from rondo.torch.hooks import Hooks, RondoBackend
from rondo.torch.library import IN_PROGRESS, SUCCESS, TIMEOUT, check, error_now, lib
from rondo.torch.meeting import Meeting
from rondo.torch.memory import Buffers, shared_tensor
from rondo.torch.moves import Messages, Moves
from rondo.torch.reductions import Reductions
from rondo.torch.threads import share_with_torch, watch_for_interrupts
from rondo.torch.traced import untraced
from rondo.torch.work import FINISHED, CallWork, JoinedWork, QueuedWork, seconds_of

Issue = Callable[[int | None], int]
DRAIN_SECONDS = 10.0  # seconds for the last calls of a process without destroy_process_group


@untraced
class RondoProcessGroup(Reductions, Moves, Messages, Hooks, dist.ProcessGroup):
    profiled_as = "rondo"  # the backend's name in torch.profiler

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta,
        comm: int | None = None,
    ) -> None:
        """comm: an existing communicator of the ranks; without it they meet in the store."""
        dist.ProcessGroup.__init__(self, rank, size)
        self._seconds = timeout.total_seconds()
        self._rank, self._size, self._store = rank, size, store
        self._meeting: Meeting | None = None
        self._comm: int | None = None
        self._begin(comm)
        self._stream: int | None = None
        self._coalesced: list[dist.Work] | None = None  # while torch's coalescing manager is open
        self._issuing = threading.RLock()  # a call on the stream and its record are one step
        self._unfinished: deque[QueuedWork] = deque()
        self._forgetting = threading.Lock()  # a look at its first work and its removal are one step
        self._name, self._description, self._sequence = "", "", 0
        self._made_in = os.getpid()
        self._weak = weakref.ref(self)
        self._open_to_hooks()
        self._see_if_plain()
        live_groups.add(self)
        drain_in_children()
        watch_for_interrupts(group_of)

    def _begin(self, comm: int | None) -> None:
        if comm is None:
            self._meeting = Meeting(
                self._store, self._rank, self._size, timedelta(seconds=self._seconds)
            )
            comm = self._meeting.meet()
        self._use(comm)

    def _use(self, comm: int) -> None:
        self._comm = comm
        share_with_torch(comm)
        check(lib.rondoCommOpenMessages(comm))

    # ---- how calls run ----

    def _see_if_plain(self) -> None:
        """is_plain: no hook, profiler's event or coalescing manager needs to see each call, and
        sums are not ordered."""
        self.is_plain = (
            self.has_torch_hooks is False
            and self._completion_hook is None
            and self._coalesced is None
            and self._ordered is None
        )

    def _run(
        self, options: object, issue: Issue, buffers: Buffers, results: list[torch.Tensor]
    ) -> dist.Work:
        """issue(stream) makes the calls and returns the first code that is not success."""
        if self._unfinished:
            self._finish_earlier()
        if self._coalesced is not None or getattr(options, "asyncOp", True):
            return self._queue(issue, buffers, results, seconds_of(options))
        self._check(issue(None))
        if buffers.copies_back:
            buffers.finish()
        return FINISHED

    def _check(self, code: int) -> None:
        """Raises the error of an issued call."""
        if code != SUCCESS:
            error = error_now(code)
            self.run_abort_hooks()
            raise error

    def _queue(
        self, issue: Issue, buffers: Buffers, results: list[torch.Tensor], limit: float | None
    ) -> QueuedWork:
        request = ctypes.c_void_p()
        with self._issuing:
            if self._stream is None and self._comm is not None:
                stream = ctypes.c_void_p()
                check(lib.rondoStreamCreate(ctypes.byref(stream)))
                self._stream = stream.value
            check(issue(self._stream))
            check(lib.rondoStreamRecord(self._stream, ctypes.byref(request)))
        work = CallWork(request.value, results, limit)
        work.buffers, work.comm = buffers, self._comm
        return self._keep(work)

    def _queued(self, request: int, given: tuple) -> QueuedWork:
        """The Work of a usual call; its options are the last argument."""
        results = given[0] if isinstance(given[0], list) else [given[0]]
        work = CallWork(request, results, seconds_of(given[-1]))
        work.given, work.comm, work.group = given, self._comm, self._weak
        self._unfinished.append(work)
        return work

    def _finish_earlier(self) -> None:
        """Callbacks of earlier calls run before a call is issued."""
        self._forget_finished()
        for work in list(self._unfinished):
            if work.chained:
                work.wait_for_chain()

    def _keep(self, work: QueuedWork) -> QueuedWork:
        kept, work.group = self._unfinished, self._weak
        kept.append(work)
        if self._coalesced is not None:
            self._coalesced.append(work)
        self._forget_finished()
        return work

    def _forget_finished(self) -> None:
        if not self._forgetting.acquire(blocking=False):
            return  # another thread does it, or a call that a hook makes meanwhile
        try:
            kept = self._unfinished
            while kept and kept[0].is_over():
                kept.popleft()
        finally:
            self._forgetting.release()

    def _join(self, works: list) -> dist.Work:
        return works[0] if len(works) == 1 else JoinedWork(works)

    @staticmethod
    def _own_limit(options: object) -> float | None:
        return seconds_of(options)

    @contextmanager
    def _limited(self, seconds: float | None) -> Iterator[None]:
        if seconds is None:
            yield
            return
        lib.rondoCommSetTimeout(self._comm, seconds)
        try:
            yield
        finally:
            lib.rondoCommSetTimeout(self._comm, self._seconds)

    # ---- several calls as one Work ----

    def _start_coalescing(self, device: torch.device) -> None:
        self._coalesced = []
        self._see_if_plain()

    def _end_coalescing(self, device: torch.device) -> dist.Work:
        works, self._coalesced = self._coalesced, None
        self._see_if_plain()
        return self._join(works or [FINISHED])

    # ---- properties that torch reads ----

    @property
    def seconds(self) -> float:
        """The time limit of a call."""
        return self._seconds

    def set_timeout(self, timeout: timedelta) -> None:
        self._seconds = timeout.total_seconds()
        check(lib.rondoCommSetTimeout(self._comm, self._seconds))

    _set_default_timeout = set_timeout

    def getBackendName(self) -> str:
        return "rondo"

    def _get_backend_name(self) -> str:
        return "rondo"

    def name(self) -> str:
        return "rondo"

    def _get_backend(self, device: torch.device) -> RondoProcessGroup | RondoBackend:
        return self._inside or self

    get_backend = _get_backend

    def get_group_store(self) -> dist.Store:
        return self._store

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def supports_tensor_alloc(self, device: torch.device | int) -> bool:
        """C++ (DDP's Reducer, torch 2.14 or newer) asks with an index, but cannot pass the options
        of a tensor to Python: it gets no memory from here."""
        return isinstance(device, torch.device) and device.type == "cpu"

    def allocate_tensor(
        self, size: int, *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        """A tensor that other ranks of this host access without a copy; FSDP2 asks for it."""
        return shared_tensor(size, dtype)

    @property
    def supports_splitting(self) -> bool:
        return False  # only its members create a group

    supports_reconfigure = False  # reconfigure.py

    @property
    def supports_coalescing(self) -> bool:
        return False  # batch_isend_irecv issues them one by one; no deadlock here

    @property
    def group_name(self) -> str:
        return self._name

    @property
    def pg_name(self) -> str:
        return self._name

    def _set_group_name(self, name: str) -> None:
        self._name = name
        if self._inside is not None:
            dist.ProcessGroup._set_group_name(self, name)

    @property
    def group_desc(self) -> str:
        return self._description

    def _set_group_desc(self, description: str) -> None:
        self._description = description
        if self._inside is not None:
            dist.ProcessGroup._set_group_desc(self, description)

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        pass_monitored_barrier(self, timeout, wait_all_ranks)

    def get_error(self) -> ErrorType:
        """Of the fault that ended the group. SUCCESS also after its own abort() or shutdown(), as
        torch's gloo answers. Local, does not wait."""
        comm, result = self.__dict__.get("_comm"), ctypes.c_int(SUCCESS)
        if comm is None or self._made_in != os.getpid():
            return ErrorType.SUCCESS
        check(lib.ncclCommGetAsyncError(comm, ctypes.byref(result)))
        if result.value in (SUCCESS, IN_PROGRESS):
            return ErrorType.SUCCESS
        return ErrorType.TIMEOUT if result.value == TIMEOUT else ErrorType.COMM_ERROR

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    # ---- end of a group ----

    def shutdown(self) -> None:
        """Finishes queued calls."""
        comm, self._comm = self._comm, None
        if comm is None or self._made_in != os.getpid():
            return
        self._end_stream()
        lib.ncclCommDestroy(comm)
        if self._meeting is not None:
            self._meeting.leave()

    def abort(self) -> None:
        """Aborts running calls, here and on the peers."""
        comm, self._comm = self._comm, None
        if comm is None or self._made_in != os.getpid():
            return
        self.run_abort_hooks()
        lib.ncclCommAbort(comm)
        self._end_stream()  # what is still queued there fails at once
        if self._meeting is not None:
            self._meeting.leave()

    def _end_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            lib.rondoStreamDestroy(stream)  # and its thread
        for work in self._unfinished:
            work.is_completed()
        self._unfinished.clear()

    def shrink(self, excluded: list[int], flags: int = 0) -> RondoProcessGroup:
        """The group of the remaining ranks, which all call this; works after a fault."""
        child = ctypes.c_void_p()
        ranks = (ctypes.c_int * len(excluded))(*excluded)
        check(
            lib.ncclCommShrink(self._comm, ranks, len(excluded), ctypes.byref(child), None, flags)
        )
        before = sum(rank < self._rank for rank in excluded)
        rest = RondoProcessGroup(
            self._store,
            self._rank - before,
            self._size - len(excluded),
            timedelta(seconds=self._seconds),
            child.value,
        )
        rest.profiled_as = self.profiled_as
        return rest

    def drain(self, seconds: float) -> None:
        """Runs before the process ends: peers may need what it has queued."""
        if self._comm is None or self._made_in != os.getpid():
            return
        end = time.monotonic() + seconds
        for work in list(self._unfinished):
            if work.others_need_it:
                work._settled_within(max(0.0, end - time.monotonic()))
        lib.rondoCommFlushMessages(self._comm, max(0.0, end - time.monotonic()))


def group_of(value: object) -> RondoProcessGroup | None:
    """The group in whose call a function is that has this variable."""
    if isinstance(value, RondoProcessGroup):
        return value
    return value.group() if isinstance(value, QueuedWork) else None


live_groups: weakref.WeakSet[RondoProcessGroup] = weakref.WeakSet()


_child_drains: int | None = None  # pid of the process that has registered it


@atexit.register
def _drain_all() -> None:
    for group in list(live_groups):
        group.drain(DRAIN_SECONDS)


def drain_in_children() -> None:
    """Forked children of multiprocessing exit without running atexit functions."""
    global _child_drains
    if multiprocessing.parent_process() is not None and _child_drains != os.getpid():
        _child_drains = os.getpid()
        multiprocessing.util.Finalize(None, _drain_all, exitpriority=200)  # before threads.py
