# SPDX-License-Identifier: Apache-2.0
"""Ranks of a Python test as forked processes. Once one fails, all end, and the test says which.

    codes = forked.run(lambda rank: ..., size=2, deadline=300)

Python programs of tests/torch and tests/plugins use it; tests/support/processes.h is that of C++.
"""

import contextlib
import multiprocessing
import signal
import time
import traceback
from multiprocessing.connection import wait

import pytest

FORK = multiprocessing.get_context("fork")
GRACE_SECONDS = 1  # for errors of other ranks, once one has failed


def serve(body, rank, outcome):
    try:
        body(rank)
    except BaseException:
        outcome.send((time.monotonic(), traceback.format_exc()))


class Rank:
    """One process. `error`: when it failed, and its text."""

    def __init__(self, body, rank):
        self.rank, self.error, self.has_reported = rank, None, False
        self.receiver, outcome = FORK.Pipe(duplex=False)
        self.process = FORK.Process(target=serve, args=(body, rank, outcome))
        self.process.start()
        outcome.close()

    def events(self):
        return [self.process.sentinel] + [self.receiver] * (not self.has_reported)

    def runs(self):
        """Looks for its error. A rank that SIGKILL has ended has none: tests kill ranks."""
        runs = self.process.is_alive()
        if not self.has_reported and self.receiver.poll():
            self.has_reported = True
            with contextlib.suppress(EOFError):  # it has closed the pipe without an error
                self.error = self.receiver.recv()
        code = self.process.exitcode
        if not runs and self.error is None and code not in (0, -signal.SIGKILL):
            self.error = time.monotonic(), f"ended with exit code {code}"
        return runs

    def end(self):
        self.process.kill()
        self.process.join()
        self.receiver.close()


def wait_for(ranks, deadline):
    """Until all have ended, but only a moment longer than the first failure. Returns those that
    still run."""
    running, end = ranks, time.monotonic() + deadline
    while running := [rank for rank in running if rank.runs()]:
        if any(rank.error for rank in ranks):
            end = min(end, time.monotonic() + GRACE_SECONDS)
        if (left := end - time.monotonic()) <= 0:
            break
        wait([event for rank in running for event in rank.events()], left)
    return running


def run(body, size, deadline):
    """Runs body(rank) on `size` processes and returns their exit codes. Fails with the errors of
    ranks, in the order of time."""
    ranks = []
    try:
        for rank in range(size):
            ranks.append(Rank(body, rank))
        running = wait_for(ranks, deadline)
    finally:
        for rank in ranks:
            rank.end()
    failed = sorted((rank for rank in ranks if rank.error), key=lambda rank: rank.error)
    failures = [f"rank {rank.rank}: {rank.error[1]}" for rank in failed]
    if late := [f"rank {rank.rank}" for rank in running if not rank.error]:
        limit = f"{GRACE_SECONDS} s later" if failed else f"after {deadline} s"
        failures.append(f"still running {limit}, ended by the test: {', '.join(late)}")
    if failures:
        pytest.fail("\n".join(failures), pytrace=False)
    return [rank.process.exitcode for rank in ranks]
