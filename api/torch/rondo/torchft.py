# SPDX-License-Identifier: Apache-2.0
"""Rondo in torchft: a process group for torchft's Manager that is made anew for each quorum.

    manager = torchft.Manager(pg=rondo.torchft.ProcessGroupRondo(), ...)

A replica that dies is named by the calls of the others at once; the Manager drops the step and goes
on with those that are left. The Manager reads the error of an all-reduce from its Future. Before,
it waits for the call; if that raises, as every back end for CPUs does when a peer is gone, the
Future is never chained, and torchft's DistributedDataParallel ends with `assert fut._fut`. So the
wait for an all-reduce does not raise here; the Future has the error. All other calls raise.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rondo.known_torch import explained

with explained():
    import torch
    import torch.distributed as dist

    from rondo.torch.process_group import RondoProcessGroup
    from rondo.torch.traced import untraced
try:
    from torchft.process_group import ProcessGroupWrapper
except ImportError as error:
    raise ImportError(
        f"rondo: {error}; rondo.torchft needs torchft 0.2 or newer: pip install -U torchft"
    ) from error


@untraced
class FailsInFuture(dist._Work):
    """A call whose error is in its Future alone."""

    def __init__(self, work: dist._Work) -> None:
        super().__init__()
        self._work = work

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        try:
            return self._work.wait(timeout)
        except Exception:
            if self._work.exception() is None:  # a signal's, not the call's
                raise
            return False

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._work.is_completed()

    def is_success(self) -> bool:
        return self._work.is_success()

    def exception(self) -> Exception | None:
        return self._work.exception()

    def result(self) -> list[torch.Tensor]:
        return self._work.result()

    def get_future(self) -> torch.futures.Future:
        return self._work.get_future()


class ProcessGroupRondo(ProcessGroupWrapper):
    def _create_pg(self, store: dist.Store, rank: int, world_size: int) -> RondoProcessGroup:
        return RondoProcessGroup(store, rank, world_size, self._timeout)

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> dist._Work:
        return FailsInFuture(super().allreduce(tensors, opts))

    def getBackendName(self) -> str:
        return "torchft-rondo"
