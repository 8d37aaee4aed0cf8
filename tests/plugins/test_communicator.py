# SPDX-License-Identifier: Apache-2.0
"""rondo.communicator alone: arrays of every kind, what it refuses, and that it needs no torch."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from rondo.communicator import Communicator, CommunicatorError, unique_id

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import forked

DEADLINE_SECONDS = float(os.environ.get("RONDO_TEST_DEADLINE", "300"))  # for busy machines


def on_ranks(size, body):
    """Runs body(communicator) on forked ranks; fails with their errors."""
    ticket = unique_id()

    def serve(rank):
        with Communicator(rank, size, ticket, init_timeout=DEADLINE_SECONDS) as ranks:
            body(ranks)

    assert forked.run(serve, size, DEADLINE_SECONDS) == [0] * size


@pytest.mark.parametrize("module", ["rondo.communicator", "rondo.ray"])
def test_it_runs_where_torch_cannot_be_imported(module):
    if module == "rondo.ray":
        pytest.importorskip("ray")
    program = f"import sys; sys.modules['torch'] = None; import {module}"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_bools_are_reduced_as_truth_values():
    def body(ranks):
        for op, expected in {
            "sum": [False, True, True, True],
            "max": [False, True, True, True],
            "bor": [False, True, True, True],
            "prod": [False, False, False, True],
            "band": [False, False, False, True],
            "bxor": [False, True, True, False],
        }.items():
            mine = np.array([[0, 1, 0, 1], [0, 0, 1, 1]][ranks.rank], bool)
            ranks.all_reduce(mine, op)
            assert mine.view(np.uint8).tolist() == expected, op  # as 0 and 1
        with pytest.raises(TypeError, match="'avg' is not defined for elements of bool"):
            ranks.all_reduce(np.ones(3, bool), "avg")

    on_ranks(2, body)


def test_any_elements_are_moved():
    def body(ranks):
        pair = np.dtype([("number", np.int32), ("text", "U3")])
        mine = np.array([(ranks.rank, "abc")] * 5, pair)
        everything = [np.empty(5, pair) for _ in range(3)]
        ranks.all_gather(everything, mine)
        assert [part[4].item() for part in everything] == [(rank, "abc") for rank in range(3)]
        ranks.broadcast(mine, 2)
        assert mine[0].item() == (2, "abc")

    on_ranks(3, body)


def test_results_reach_arrays_that_are_not_dense():
    def body(ranks):
        whole = np.zeros((4, 6))
        ranks.broadcast(whole[1:3, ::2], 0)
        transposed = np.full((2, 3), ranks.rank + 1.0).T
        ranks.all_reduce(transposed)
        parts = [np.zeros((3, 4)).T[1:] for _ in range(2)]
        ranks.all_gather(parts, np.arange(9.0).reshape(3, 3) * (ranks.rank + 1))
        assert (transposed == 3).all()
        for rank, part in enumerate(parts):
            assert (part == np.arange(9).reshape(3, 3) * (rank + 1)).all()

    on_ranks(2, body)


def test_torchs_own_types_are_summed():
    torch = pytest.importorskip("torch")

    def body(ranks):
        for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.complex128, torch.uint16):
            mine = torch.full((3,), ranks.rank + 1).to(dtype)
            ranks.all_reduce(mine)
            assert (mine.to(torch.complex128) == 3).all(), dtype
        lazy = torch.tensor([1 + 2j, 3j]).conj()  # torch conjugates it when it is read
        gathered = [torch.zeros(2, dtype=torch.complex64) for _ in range(2)]
        ranks.all_gather(gathered, lazy)
        assert gathered[1 - ranks.rank].tolist() == [1 - 2j, -3j]

    on_ranks(2, body)


def test_what_cannot_be_done_is_refused_before_a_rank_waits():
    def body(ranks):
        fixed = np.ones(3)
        fixed.flags.writeable = False
        for call, kind, text in (
            (lambda: ranks.all_reduce([1, 2]), TypeError, "a list is neither a NumPy array nor"),
            (lambda: ranks.all_reduce(fixed), ValueError, "read-only array; copy it first"),
            (lambda: ranks.all_reduce(np.array([{}])), TypeError, "object holds Python objects"),
            (lambda: ranks.all_reduce(np.ones(3), "xor"), ValueError, "'xor' is no operation; the"),
            (lambda: ranks.all_reduce(np.ones(3), "bxor"), TypeError, "'bxor' is not defined for"),
            (lambda: ranks.all_gather([fixed], fixed), ValueError, "1 arrays for 2 ranks"),
            (
                lambda: ranks.all_gather(np.ones(5), fixed),
                ValueError,
                "5 x float64 are not 2 times",
            ),
            (lambda: ranks.all_to_all(fixed + 1j, fixed + 1j), ValueError, "3 elements do not div"),
        ):
            with pytest.raises(kind, match=text):
                call()
        ranks.broadcast(fixed if ranks.rank == 0 else np.ones(3), 0)  # the root's is only read
        ranks.close()
        with pytest.raises(CommunicatorError, match=f"rank {ranks.rank} has closed this"):
            ranks.barrier()

    on_ranks(2, body)


def test_a_ticket_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"a ticket has 128 bytes, this has 3; pass what unique_"):
        Communicator(0, 1, b"abc")
