# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a group meet: through torch's store, then through the library's rendezvous.

A store outlives groups, so keys contain the group's generation: how often this rank has been in a
group of this size and name. Each rank publishes that it is present, its world size, and its version
of Rondo. If these conflict, the errors of all ranks name both sides, within two LOOK_SECONDS.

The communicator gets the group's description or name, which torch does not pass to a backend: they
are variables of torch's function that creates a group. A torch that calls them otherwise costs that
name, and nothing else.
"""

from __future__ import annotations

import ctypes
import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from datetime import timedelta

import torch.distributed as dist
from torch.distributed import DistBackendError, Store

from rondo.library import version
from rondo.torch.library import CommOptions, NamedConfig, UniqueId, check, lib

LOOK_SECONDS = 0.5  # between two checks for wrong ranks
MAX_NAMED = 16

# A group's store stays open after the group, until stores at MAX_KEPT other places have been used.
# One rank serves a TCP store. If the store ended with its group, a fast rank that creates the next
# group could connect to a server that is about to close. The last rank that closes a file store
# removes its file, even if a fast rank has just opened it again; that rank's data would be lost.
MAX_KEPT = 4
_kept: dict[tuple[str, int], Store] = {}  # by place, the one used last at the end


CREATES_GROUPS = "_new_process_group_helper"
UNDESCRIBED = (None, "", "undefined")


def of_new_group(name: str) -> object:
    """A variable of the function that is creating a group; None: not there."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != CREATES_GROUPS:
        frame = frame.f_back
    return None if frame is None else frame.f_locals.get(name)


def title() -> str:
    """The group's description (group_desc), else its name; as in `rondo ps` and the metrics."""
    description, name = of_new_group("group_desc"), of_new_group("group_name")
    if description not in UNDESCRIBED:
        return str(description)
    return "" if name in UNDESCRIBED else f"group {name}"


def keep_store(store: Store) -> None:
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    if isinstance(store, dist.TCPStore):
        _kept.pop((store.host, store.port), None)
        _kept[store.host, store.port] = store
    elif isinstance(store, dist.FileStore):  # while the first one is open, the file stays
        _kept[store.path, 0] = _kept.pop((store.path, 0), store)
    while len(_kept) > MAX_KEPT:
        del _kept[next(iter(_kept))]


def has_ended(who: str) -> bool:
    """True if a process of this host that was registered in the store has exited."""
    _, _, pid, _, host = who.split()
    if host != socket.gethostname():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


class Meeting:
    def __init__(
        self, store: Store, rank: int, size: int, timeout: timedelta, place: str = ""
    ) -> None:
        """place: keys of this meeting alone; without it those of all groups of this world."""
        self._store, self._rank, self._size = store, rank, size
        self._seconds = timeout.total_seconds()
        self._end = time.monotonic() + self._seconds
        # torchrun restarts workers with the same store.
        restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)
        self._root = f"rondo/{place or restarts}"
        self._process = f"pid {os.getpid()} on {socket.gethostname()}"
        self._troubles = [f"{self._root}/trouble"]  # keys of what ranks found wrong
        keep_store(store)

    def meet(self, when_all_are_here: Callable[[], None] = lambda: None) -> int:
        """Returns the communicator. All ranks of the group call this at the same time."""
        self._show()
        life = self._store.add(f"{self._root}/lives/{self._size}/{self._rank}", 1)
        prefix = f"{self._root}/{self._size}/{life}/"
        self._compare_versions(prefix)
        if self._rank == 0:
            ticket = UniqueId()
            check(lib.ncclGetUniqueId(ctypes.byref(ticket)))
            self._store.set(f"{prefix}ticket", bytes(ticket).hex())
        if self._store.add(f"{prefix}came", 1) == self._size:
            self._store.set(f"{prefix}all", "1")
        self._wait_for(f"{prefix}all")
        when_all_are_here()
        ticket = UniqueId.from_buffer_copy(bytes.fromhex(self._get(f"{prefix}ticket")))
        comm = ctypes.c_void_p()
        named, options = NamedConfig(title()), CommOptions(self._seconds)
        check(
            lib.rondoCommInitRankOptions(
                ctypes.byref(comm),
                self._size,
                ticket,
                self._rank,
                ctypes.byref(named),
                ctypes.byref(options),
            )
        )
        if self._rank == 0:
            self._forget(f"{prefix}ticket")  # all ranks have joined with it
        return comm.value

    def leave(self) -> None:
        """Removes this rank's entry, so that it can join again."""
        keep_store(self._store)
        try:
            self._store.set(f"{self._root}/here/{self._rank}", "")
        except RuntimeError as error:  # the rank that serves the store may have ended
            logging.getLogger(__name__).debug("rondo: cannot report that this rank left: %s", error)

    def _forget(self, key: str) -> None:
        try:
            self._store.delete_key(key)
        except (RuntimeError, NotImplementedError) as error:  # unsupported, or it has gone
            logging.getLogger(__name__).debug("rondo: the store keeps %s: %s", key, error)

    def _get(self, key: str) -> str:
        return self._store.get(key).decode()

    def _show(self) -> None:
        key = f"{self._root}/here/{self._rank}"
        mine = f"{self._size} {self._process}"
        other = self._store.compare_set(key, "", mine).decode()
        if other == mine:
            return
        if has_ended(other):
            self._store.set(key, mine)
            return
        text = (
            f"rank {self._rank} joined twice: {other.split(' ', 1)[-1]} and "
            f"{mine.split(' ', 1)[1]}; give each process a rank of its own"
        )
        self._report(text)

    def _compare_versions(self, prefix: str) -> None:
        """With the first rank that came."""
        self._troubles.append(f"{prefix}trouble")
        mine = f"{version()} for rank {self._rank} ({self._process})"
        first = self._store.compare_set(f"{prefix}version", "", mine).decode()
        if first.split(" ", 1)[0] != version():
            self._report(
                f"ranks have different versions of rondo: {first}, {mine}; install the same wheel "
                "on all hosts"
            )

    def _report(self, trouble: str) -> None:
        """To the waiting ranks, and to the caller."""
        self._store.set(self._troubles[-1], trouble)
        self._let_others_see()
        raise DistBackendError(f"rondo: {trouble}")

    def _let_others_see(self) -> None:
        """The rank that may serve the store waits until the waiting ranks have read it."""
        if self._rank == 0:
            time.sleep(2 * LOOK_SECONDS)

    def _wait_for(self, key: str) -> None:
        while True:
            left = self._end - time.monotonic()
            try:
                look = timedelta(seconds=max(0.01, min(LOOK_SECONDS, left)))
                return self._store.wait([key], look)
            except RuntimeError:  # not yet, or the store has gone
                self._look_around(left)

    def _look_around(self, left: float) -> None:
        try:
            trouble = self._trouble()
            if trouble:
                self._let_others_see()
            away = [r for r in range(self._size) if not self._who(r)] if left <= 0 else []
        except RuntimeError as error:
            trouble = (
                f"rank {self._rank} lost the rendezvous store while it waited for the other ranks; "
                f"has the process that serves it (MASTER_ADDR:MASTER_PORT) ended? ({error})"
            )
        if not trouble and left <= 0:
            names = ", ".join(map(str, away[:MAX_NAMED])) + " ..." * (len(away) > MAX_NAMED)
            trouble = (
                f"rank {self._rank} waited {self._seconds:g} s for {len(away)} of {self._size} "
                f"ranks that did not join: {names}; are they started, and with a world size of "
                f"{self._size}?"
            )
        if trouble:
            raise DistBackendError(f"rondo: {trouble}")

    def _who(self, rank: int) -> str:
        key = f"{self._root}/here/{rank}"
        return self._get(key) if self._store.check([key]) else ""

    def _trouble(self) -> str:
        for key in self._troubles:
            if self._store.check([key]):
                return self._get(key)
        for rank in range(self._size):
            size, _, who = self._who(rank).partition(" ")
            if size and int(size) != self._size:
                return (
                    f"ranks disagree about the world size: {self._size} for rank {self._rank}, "
                    f"{size} for rank {rank} ({who})"
                )
        return ""
