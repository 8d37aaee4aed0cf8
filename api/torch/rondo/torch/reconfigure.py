# SPDX-License-Identifier: Apache-2.0
"""A group whose members change while the program runs: torch's reconfigure (2.15 or newer).

    dist.init_process_group("rondo", enable_reconfigure=True)      # waits for nobody
    handles = ...  # dist._get_reconfigure_handle() of all members, in the order of their ranks
    dist._reconfigure(uuid, handles).wait()

Every member calls it with the same handles and a uuid that this group has not used. Members may
leave, come, or change their ranks; each may have been aborted or have lost a peer before. They meet
in the store of the first handle. Until all have come, the members of before stay as they are: an
attempt that fails so can be repeated with a new uuid. Then calls that still run are aborted, here
and on ranks that are left out.

Costs what a new group costs: the ranks meet, and the library connects them.
"""

from __future__ import annotations

import os
import socket
import uuid
from datetime import timedelta
from typing import Any, NamedTuple

import torch.distributed as dist
from torch.distributed import DistBackendError

from rondo.library import version
from rondo.torch.meeting import Meeting
from rondo.torch.process_group import RondoProcessGroup
from rondo.torch.traced import untraced
from rondo.torch.work import FINISHED

MARK = "rondo"


class Handle(NamedTuple):
    """What a member tells the others, as text: fields between spaces."""

    mark: str
    version: str
    number: str  # of one group in one process
    pid: str
    host: str
    store: str  # HOST:PORT of its TCP store; "-": the members share a store

    @classmethod
    def read(cls, text: str) -> Handle:
        fields = text.split(" ")
        if len(fields) != len(cls._fields) or fields[0] != MARK:
            raise DistBackendError(
                f"rondo: '{text}' is no handle of backend 'rondo'; each member passes on what "
                "torch.distributed._get_reconfigure_handle() returns there, with this backend"
            )
        return cls(*fields)


def innermost(store: dist.Store) -> dist.Store:
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return store


def place_of(store: dist.Store) -> str:
    store = innermost(store)
    return f"{store.host}:{store.port}" if isinstance(store, dist.TCPStore) else "-"


@untraced
class ReconfigurableGroup(RondoProcessGroup):
    """Has no communicator (`_comm`) until its first reconfigure(), and after abort()."""

    supports_reconfigure = True

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta,
        others: dict[str, str],
    ) -> None:
        if others:
            raise DistBackendError(
                "rondo: enable_reconfigure needs a group of one backend; this has rondo and "
                f"{', '.join(others.values())}: make two groups"
            )
        super().__init__(store, rank, size, timeout)
        self._used: set[int] = set()
        host = socket.gethostname().replace(" ", "_")
        self._handle = Handle(
            MARK, version(), uuid.uuid4().hex, str(os.getpid()), host, place_of(store)
        )

    def _begin(self, comm: int | None) -> None:
        del self._comm

    def __getattr__(self, name: str) -> Any:
        """Called for `_comm` alone while there is none, and for names that do not exist."""
        if name == "_comm":
            raise DistBackendError(
                f"rondo: this group of rank {self._rank} has no members: call "
                "torch.distributed._reconfigure(uuid, handles) on all of them, first and after "
                "abort()"
            )
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    getRank, getSize = rank, size  # torch's C++ asks by these names

    def get_reconfigure_handle(self) -> str:
        return " ".join(self._handle)

    def reconfigure(self, options: Any) -> dist.Work:
        """Returns when the new group is ready; all of the new members call this."""
        ordered = isinstance(options.handles, list)
        handles = [Handle.read(text) for text in options.handles]
        members = handles if ordered else sorted(handles)
        rank = self._expect_members(members, options.uuid)
        seconds = options.timeout or timedelta(seconds=self._seconds)
        place = f"reconfigure/{members[0].number}/{options.uuid}"
        store = self._store_of(members[0], seconds)
        meeting = Meeting(store, rank, len(members), seconds, place)
        comm = meeting.meet(self.abort)
        self._used.add(options.uuid)
        self._rank, self._size = rank, len(members)
        self._use(comm)
        self.set_timeout(timedelta(seconds=self._seconds))
        return FINISHED

    def _expect_members(self, members: list[Handle], number: int) -> int:
        """Raises if they cannot be a group; returns this rank's position."""
        if number in self._used:
            raise DistBackendError(
                f"rondo: uuid {number} was already used by this group of rank {self._rank}; give "
                "each reconfigure a new one"
            )
        for rank, member in enumerate(members):
            if member in members[:rank]:
                raise DistBackendError(
                    f"rondo: the handles of ranks {members.index(member)} and {rank} are the same "
                    f"(pid {member.pid} on {member.host}); each member has one"
                )
            if member.version != self._handle.version:
                raise DistBackendError(
                    f"rondo: rank {rank} (pid {member.pid} on {member.host}) has rondo "
                    f"{member.version}, this process {self._handle.version}; install the same "
                    "wheel on all hosts"
                )
        if self._handle not in members:
            raise DistBackendError(
                f"rondo: the handle of this process is not among the {len(members)} handles; only "
                "members call reconfigure, each with the handles of all"
            )
        return members.index(self._handle)

    def _store_of(self, first: Handle, timeout: timedelta) -> dist.Store:
        if first.store in ("-", self._handle.store):
            return innermost(self._store)
        host, port = first.store.rsplit(":", 1)
        return dist.TCPStore(host, int(port), is_master=False, timeout=timeout)

    def _is_open(self) -> bool:
        return "_comm" in self.__dict__

    def abort(self) -> None:
        if self._is_open():
            super().abort()
            del self._comm

    def shutdown(self) -> None:
        if self._is_open():
            super().shutdown()

    def drain(self, seconds: float) -> None:
        if self._is_open():
            super().drain(seconds)
