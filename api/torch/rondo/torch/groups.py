# SPDX-License-Identifier: Apache-2.0
"""split_group, shrink_group and monitored_barrier, which torch offers only for other backends."""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

# Private functions, whose names depend on torch's version.
register_in_world = getattr(
    c10d, "_register_pg_in_world", getattr(c10d, "_update_process_group_global_state", None)
)
BARRIER_TAG = 0x7FFF0000  # unlikely to be a tag of the program
_splits: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # number of splits per group


@contextmanager
def next_group_name(name: str) -> Iterator[None]:
    """torch names a group created by its members from its ranks and the number of groups that this
    rank is in. Ranks with different numbers of groups would wait for each other under two names."""
    theirs = c10d._process_group_name
    c10d._process_group_name = lambda *ranks, **how: name
    try:
        yield
    finally:
        c10d._process_group_name = theirs


def split_group(
    parent_pg: dist.ProcessGroup | None = None,
    split_ranks: list[list[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
) -> dist.ProcessGroup | None:
    """The group of split_ranks (ranks of the parent) that contains this rank, else None."""
    parent = parent_pg or dist.group.WORLD
    _splits[parent] = count = _splits.get(parent, 0) + 1  # collective: equal on all ranks
    mine = next((part for part in split_ranks or [] if parent.rank() in part), None)
    if mine is None:
        return None
    ranks = [dist.get_global_rank(parent, rank) for rank in mine]
    # Under rondo.torch.run this is the backend that the script names; the parent may have GPUs too.
    backend = dist.get_backend(parent) if hasattr(parent, "profiled_as") else "rondo"
    with next_group_name(f"{parent.group_name}:split:{count}:{ranks[0]}"):
        return dist.new_group(
            ranks, timeout, backend, use_local_synchronization=True, group_desc=group_desc
        )


def shrink_group(
    ranks_to_exclude: list[int],
    group: dist.ProcessGroup | None = None,
    shrink_flags: int = 0,
    pg_options: object = None,
) -> dist.ProcessGroup:
    """Called by the remaining ranks; the old group is destroyed, as torch does."""
    group = group or dist.group.WORLD
    excluded = sorted(set(ranks_to_exclude))
    world = group is dist.group.WORLD
    facts = c10d._extract_group_metadata(group)
    ranks = [
        r
        for r in dist.get_process_group_ranks(group)
        if dist.get_group_rank(group, r) not in excluded
    ]
    child = group.shrink(excluded, shrink_flags)
    if world:
        c10d._destroy_all_other_groups(exclude_group=group)
    c10d._cleanup_original_group(group, world)
    child._set_group_name(facts["new_group_name"])
    child._set_group_desc(f"{facts['original_group_name']}:shrunk")
    if world:
        c10d._update_default_pg(child)
    register_in_world(
        pg=child,
        backend_name=facts["backend_name"],
        store=facts["store"],
        group_name=facts["new_group_name"],
        backend_config=facts["backend_config"],
        rank_mapping={rank: index for index, rank in enumerate(ranks)},
    )
    return child


def shrink_here_too() -> None:
    """dist.shrink_group needs a C++ backend; for groups of Rondo it calls ours."""
    theirs = getattr(dist, "shrink_group", None)
    if theirs is None or hasattr(theirs, "serves_rondo"):
        return

    @functools.wraps(theirs)
    def either(ranks_to_exclude, group=None, *rest, **named):
        ours = hasattr(group or dist.group.WORLD, "shrink")
        return (shrink_group if ours else theirs)(ranks_to_exclude, group, *rest, **named)

    either.serves_rondo = True
    dist.shrink_group = c10d.shrink_group = either


def monitored_barrier(
    group: dist.ProcessGroup | None = None,
    timeout: timedelta | float | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """A barrier whose error names the first missing rank, or all of them. Does nothing on a rank
    outside of the group, as in torch."""
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        pass_monitored_barrier(group or dist.group.WORLD, timeout, wait_all_ranks)


def pass_monitored_barrier(
    group: dist.ProcessGroup, timeout: timedelta | float | None, wait_all_ranks: bool
) -> None:
    """Errors have gloo's wording, because programs search for it."""
    if isinstance(timeout, timedelta):
        timeout = timeout.total_seconds()
    limit = group.seconds if timeout is None else timeout
    if group.rank() == 0:
        _gather_and_release(group, limit, wait_all_ranks)
        return
    token = torch.zeros(1, dtype=torch.uint8)
    group.send([token], 0, BARRIER_TAG)
    released = group.recv([token], 0, BARRIER_TAG)
    try:
        released.wait(timedelta(seconds=max(0.001, limit)))
    except dist.DistBackendError as error:
        raise dist.DistBackendError(
            f"rondo: Rank {group.rank()} successfully reached monitoredBarrier, but received errors"
            f" while waiting for send/recv from rank 0 within {limit * 1000:g} ms: rank 0 is"
            f" missing, or other ranks are and the error of rank 0 names them ({error})"
        ) from None


def _gather_and_release(group: dist.ProcessGroup, limit: float, all_of_them: bool) -> None:
    if limit <= 0 and group.size() > 1:
        raise dist.DistBackendError(
            f"rondo: Rank 0 timed out in monitoredBarrier after {limit * 1000:g} ms; give it a "
            "longer timeout"
        )
    end = time.monotonic() + limit
    waiting = {
        rank: group.recv([torch.zeros(1, dtype=torch.uint8)], rank, BARRIER_TAG)
        for rank in range(1, group.size())
    }
    away = []
    for rank, work in waiting.items():
        try:
            work.wait(timedelta(seconds=max(0.001, end - time.monotonic())))
        except dist.DistBackendError:
            away.append(rank)
            if not all_of_them:
                break
    if away:
        ranks = "Rank " if len(away) == 1 else "Ranks "
        raise dist.DistBackendError(
            f"rondo: {ranks}{', '.join(map(str, away))} failed to pass monitoredBarrier in "
            f"{limit * 1000:g} ms"
        )
    for rank in waiting:
        group.send([torch.zeros(1, dtype=torch.uint8)], rank, BARRIER_TAG)
