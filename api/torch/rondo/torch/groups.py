"""split_group and monitored_barrier for CPU groups, which torch offers for other backends alone."""

from __future__ import annotations

import time
from datetime import timedelta

import torch
import torch.distributed as dist

BARRIER_TAG = 0x7FFF0000  # out of the way of tags that people choose


def split_group(
    parent_pg: dist.ProcessGroup | None = None,
    split_ranks: list[list[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
) -> dist.ProcessGroup | None:
    """The group of split_ranks (ranks of the parent) that this rank is in, else None."""
    parent = parent_pg or dist.group.WORLD
    mine = next((part for part in split_ranks or [] if parent.rank() in part), None)
    if mine is None:
        return None
    ranks = [dist.get_global_rank(parent, rank) for rank in mine]
    return dist.new_group(
        ranks, timeout, "rondo", use_local_synchronization=True, group_desc=group_desc
    )


def monitored_barrier(
    group: dist.ProcessGroup | None = None,
    timeout: timedelta | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """A barrier that names who has not come: the first of them, or all."""
    group = group or dist.group.WORLD
    limit = timeout.total_seconds() if timeout else group.seconds
    if group.rank() == 0:
        _gather_and_release(group, limit, wait_all_ranks)
        return
    token = torch.zeros(1, dtype=torch.uint8)
    group.send([token], 0, BARRIER_TAG)
    released = group.recv([token], 0, BARRIER_TAG)
    try:
        released.wait(timedelta(seconds=limit))
    except dist.DistBackendError as error:
        raise dist.DistBackendError(
            f"rondo: rank {group.rank()} passed no monitored_barrier within {limit:g} s: rank 0 "
            f"has not come, or other ranks have not and it says which ({error})"
        ) from None


def _gather_and_release(group: dist.ProcessGroup, limit: float, all_of_them: bool) -> None:
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
        raise dist.DistBackendError(
            f"rondo: rank(s) {', '.join(map(str, away))} did not reach monitored_barrier within "
            f"{limit:g} s"
        )
    for rank in waiting:
        group.send([torch.zeros(1, dtype=torch.uint8)], rank, BARRIER_TAG)
