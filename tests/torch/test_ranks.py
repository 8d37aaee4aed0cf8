# SPDX-License-Identifier: Apache-2.0
"""When a rank of a test fails, all its ranks end, and the text says which failed first."""

import os
from multiprocessing.connection import wait

import pytest
from ranks import DEADLINE_SECONDS, FORK, run


def failure_of(body):
    with pytest.raises(pytest.fail.Exception) as failure:
        run(body, 2, group=False)
    return str(failure.value)


@pytest.mark.parametrize("how, words", [("assertion", "as planned"), ("crash", "exit code -6")])
def test_a_rank_that_fails_ends_one_that_waits(how, words):
    pid, sleeps, never = FORK.Value("i", 0), FORK.Event(), FORK.Event()

    def body(rank, size):
        if rank == 0:
            pid.value = os.getpid()
            sleeps.set()
            never.wait(DEADLINE_SECONDS)
        assert sleeps.wait(DEADLINE_SECONDS)
        if how == "crash":
            os.abort()
        raise AssertionError("as planned")

    text = failure_of(body)
    assert text.startswith("rank 1: ") and words in text, text
    assert text.endswith("still running 1 s later, ended by the test: rank 0"), text
    with pytest.raises(ProcessLookupError):
        os.kill(pid.value, 0)


def test_the_first_failure_comes_first():
    pid, is_known, is_watched = FORK.Value("i", 0), FORK.Event(), FORK.Event()

    def body(rank, size):
        if rank == 0:
            assert is_known.wait(DEADLINE_SECONDS)
            other = os.pidfd_open(pid.value)
            is_watched.set()
            assert wait([other], DEADLINE_SECONDS)
            raise AssertionError("rank 1 is gone")
        pid.value = os.getpid()
        is_known.set()
        assert is_watched.wait(DEADLINE_SECONDS)
        raise AssertionError("as planned")

    text = failure_of(body)
    assert text.startswith("rank 1: ") and "as planned" in text, text
