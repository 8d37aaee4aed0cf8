# SPDX-License-Identifier: Apache-2.0
"""How the actors of a Ray group meet: through the key-value store of Ray's control service.

Each rank shows an entry: its process, actor, group size, version of Rondo, and a number that is new
for each meeting. When rank 0 has seen all entries, it gives each of them the ticket under its
number. So a key that an earlier group of the same name left behind is never taken for a new one.

An entry of a process that had ended or failed before this rank came is from an earlier group, and
is ignored. Each rank gets the entries with the ticket, so that it also learns of a death while the
library connects the ranks.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import ray
from ray.experimental import internal_kv

from rondo.communicator import CommunicatorError, unique_id
from rondo.library import version

LOOK_SECONDS = 0.02  # between two looks at the store
DEATHS_SECONDS = 0.3  # between two looks for dead actors
INFO_SECONDS = 10.0
NAMESPACE = b"rondo"
MAX_NAMED = 16


def state_of(actor: str) -> tuple[str, int]:
    """ALIVE, DEAD, RESTARTING, ..., and the pid of its newest process; "", 0: unknown."""
    try:
        facts = ray._private.state.actors(actor)
        return facts["State"], facts["Pid"]
    except Exception:  # not an interface that Ray promises; then the limit ends the wait
        return "", 0


def has_ended(entry: dict[str, Any]) -> bool:
    if not entry["actor"]:
        return False  # a task
    state, pid = state_of(entry["actor"])
    return state in ("DEAD", "RESTARTING") or 0 not in (pid, entry["pid"]) and pid != entry["pid"]


def declared_actors(group: str, size: int) -> dict[int, str]:
    """Actors by rank, if the driver has declared the group (create_collective_group)."""
    try:
        asked = ray.get_actor(f"info_{group}").get_info.remote()
        actors, declared, ranks, *_ = ray.get(asked, timeout=INFO_SECONDS)
        if declared == size:
            return {rank: actor.hex() for actor, rank in zip(actors, ranks)}
    except Exception:  # not declared: each rank has called init_collective_group
        pass
    return {}


def names_of(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:MAX_NAMED])) + " ..." * (len(ranks) > MAX_NAMED)


def outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return error


class Meeting:
    def __init__(self, group: str, rank: int, size: int, seconds: float) -> None:
        self._group, self._rank, self._size, self._seconds = group, rank, size, seconds
        self._end = time.monotonic() + seconds
        self._mine = {
            "number": uuid.uuid4().hex,
            "actor": ray.get_runtime_context().get_actor_id() or "",
            "pid": os.getpid(),
            "who": f"pid {os.getpid()} on {socket.gethostname()}",
            "size": size,
            "version": version(),
        }
        self._here: dict[int, dict[str, Any]] = {}  # entries by rank, as far as they were seen
        entries = [entry for entry in map(self._entry, range(size)) if entry]
        self._old = {e["number"] for e in entries if "failed" in e or has_ended(e)}
        self._actors = declared_actors(group, size)
        self._next_look = 0.0

    def meet(self) -> tuple[bytes, float]:
        """The ticket, and the seconds that are left of the limit."""
        put(self._key(f"here/{self._rank}"), json.dumps(self._mine))
        try:
            ticket = self._give() if self._rank == 0 else self._take()
        except Exception as error:  # others of this meeting see it in the entry
            put(self._key(f"here/{self._rank}"), json.dumps({**self._mine, "failed": str(error)}))
            raise
        return ticket, max(1.0, self._end - time.monotonic())

    def connect(self, make: Callable[[], Any]) -> Any:
        """What make() returns, on a thread of its own: the library waits for all ranks, but does
        not see that one ends before it has connected. Raises then."""
        made: list[Any] = []
        thread = threading.Thread(target=lambda: made.append(outcome(make)), daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(DEATHS_SECONDS)
            if thread.is_alive():
                self._expect_alive(list(range(self._size)))  # the thread ends by its limit
        if isinstance(made[0], Exception):
            raise made[0]
        return made[0]

    def leave(self) -> None:
        """Removes what this rank has shown, unless a later meeting has replaced it."""
        entry = self._entry(self._rank)
        if entry and entry["number"] == self._mine["number"]:
            internal_kv._internal_kv_del(self._key(f"here/{self._rank}"), namespace=NAMESPACE)
        internal_kv._internal_kv_del(self._ticket_key(self._mine), namespace=NAMESPACE)

    def _give(self) -> bytes:
        try:
            self._wait_for_entries(list(range(1, self._size)))
            self._expect_one_version()
            ticket = unique_id()
        except Exception as error:
            self._answer(f"error {error}")  # otherwise the others wait for the limit
            raise
        self._here[0] = self._mine
        self._answer(f"ticket {ticket.hex()} {json.dumps(list(sorted(self._here.items())))}")
        return ticket

    def _answer(self, text: str) -> None:
        for entry in self._here.values():
            put(self._ticket_key(entry), text)

    def _take(self) -> bytes:
        for _ in self._looks([0]):
            answer = get(self._ticket_key(self._mine))
            if answer:
                kind, text = answer.split(" ", 1)
                if kind == "error":
                    raise CommunicatorError(text)
                ticket, entries = text.split(" ", 1)
                self._here = dict(json.loads(entries))
                return bytes.fromhex(ticket)
            if 0 not in self._here:
                self._see(0)
        raise AssertionError("the looks end by an error")

    def _wait_for_entries(self, ranks: list[int]) -> None:
        for _ in self._looks(ranks):
            if all([rank in self._here or self._see(rank) for rank in ranks]):
                return

    def _looks(self, needed: list[int]) -> Iterator[None]:
        """A turn for each look at the store; raises if the wait cannot succeed."""
        while True:
            yield
            now = time.monotonic()
            if now >= self._next_look:
                self._next_look = now + DEATHS_SECONDS
                self._expect_alive(needed)
            if now >= self._end:
                away = [rank for rank in needed if rank not in self._here]
                raise CommunicatorError(self._missing(away))
            time.sleep(LOOK_SECONDS)

    def _see(self, rank: int) -> bool:
        entry = self._entry(rank)
        if not entry or entry["number"] in self._old:
            return False
        if failed := entry.get("failed"):
            raise CommunicatorError(failed)
        if entry["size"] != self._size:
            raise CommunicatorError(
                f"rondo: group '{self._group}': {self._size} ranks for rank {self._rank}, "
                f"{entry['size']} for rank {rank} ({entry['who']}); give all the same world_size"
            )
        self._here[rank] = entry
        return True

    def _expect_alive(self, needed: list[int]) -> None:
        for rank in needed:
            actor = self._actors.get(rank, "")
            entry = self._here.get(rank, {"actor": actor, "who": "never seen", "pid": 0})
            if has_ended(entry):
                raise CommunicatorError(
                    f"rondo: group '{self._group}': rank {rank} (actor {entry['actor']}, "
                    f"{entry['who']}) died before the {self._size} ranks had met; its log says why "
                    "(ray logs actor --id ...). Start it again, then make the group on all ranks"
                )

    def _expect_one_version(self) -> None:
        for rank, entry in sorted(self._here.items()):
            if entry["version"] != self._mine["version"]:
                raise CommunicatorError(
                    f"rondo: group '{self._group}': rank 0 ({self._mine['who']}) has rondo "
                    f"{self._mine['version']}, rank {rank} ({entry['who']}) has "
                    f"{entry['version']}; install the same wheel on all nodes"
                )

    def _missing(self, away: list[int]) -> str:
        start = (
            f"rondo: group '{self._group}': rank {self._rank} waited {self._seconds:g} s "
            f"(RONDO_INIT_TIMEOUT) for "
        )
        if not away:
            return start + "rank 0, which waits for others itself"
        return (
            start + f"{len(away)} of {self._size} ranks that did not come: {names_of(away)}; do "
            "they make this group, with backend 'rondo', and do they have a CPU to run on?"
        )

    def _entry(self, rank: int) -> dict[str, Any] | None:
        text = get(self._key(f"here/{rank}"))
        return json.loads(text) if text else None

    def _key(self, name: str) -> str:
        return f"{self._group}/{name}"

    def _ticket_key(self, entry: dict[str, Any]) -> str:
        return self._key(f"ticket/{entry['number']}")


def put(key: str, text: str) -> None:
    internal_kv._internal_kv_put(key, text, overwrite=True, namespace=NAMESPACE)


def get(key: str) -> str:
    value = internal_kv._internal_kv_get(key, namespace=NAMESPACE)
    return value.decode() if value else ""
