# SPDX-License-Identifier: Apache-2.0
"""torch's own analyser of flight recorders reads what `rondo trace --torch` writes."""

import json
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from ranks import DEADLINE_SECONDS, report, run, stay_until

# That of the wheel; or of a build, for work on the test itself.
PLACE = pathlib.Path(sys.executable).parent
RONDO = os.environ.get("COMMAND_UNDER_TEST") or shutil.which("rondo", path=str(PLACE))
ANALYSER = "torch.distributed.flight_recorder.fr_trace"

pytestmark = pytest.mark.skipif(RONDO is None, reason="the wheel has no command rondo")


def called(*words):
    done = subprocess.run(
        [str(word) for word in words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def analysed(traces):
    dumps = traces / "dumps"
    called(RONDO, "trace", traces, "--torch", dumps)
    return called(sys.executable, "-m", ANALYSER, dumps, "-p", "rondo_")


def job(traces, function, monkeypatch):
    monkeypatch.setenv("RONDO_TRACE", str(traces))
    assert run(function, 3) == [0, 0, 0]


def communicators():
    """Of this process, as `rondo ps` shows them: a rank's state by its number."""
    ps = [RONDO, "ps", str(os.getpid()), "--json"]
    done = subprocess.run(ps, capture_output=True, text=True, timeout=600)
    shown = json.loads(done.stdout)["communicators"] if done.returncode == 0 else []
    return [{state["rank"]: state for state in one["ranks_here"]} for one in shown]


def wait_in_the_next_call(states, rank, others):
    if rank not in states or not set(others) <= set(states):
        return False
    newest = states[rank]["call"]
    return all(states[r]["call"] > newest and states[r]["waits_for"] >= 0 for r in others)


def after_the_others(rank, *others):
    """Once they wait in their calls: a rank that learns of a difference does not enter."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not any(wait_in_the_next_call(states, rank, others) for states in communicators()):
        assert time.monotonic() < end, communicators()
        time.sleep(0.05)


def test_a_call_that_differs(tmp_path, monkeypatch):
    def body(rank, size):
        for _ in range(3):
            dist.all_reduce(torch.ones(8))
        with pytest.raises(dist.DistBackendError, match="Mismatched calls"):
            if rank == 1:
                after_the_others(rank, 0, 2)
                dist.broadcast(torch.ones(8), 0)
                dist.barrier()
            else:
                dist.all_reduce(torch.ones(8))
                dist.barrier()

    job(tmp_path, body, monkeypatch)
    text = analysed(tmp_path)
    # The analyser takes the rank whose file it reads first as right.
    assert "has errors" in text, text
    assert "Error type: COLLECTIVE_TYPE_MISMATCH" in text, text
    assert "'all_reduce'" in text and "'broadcast'" in text, text


def test_a_size_that_differs(tmp_path, monkeypatch):
    def body(rank, size):
        dist.all_reduce(torch.ones(8))
        with pytest.raises(dist.DistBackendError, match="Mismatched calls"):
            if rank == 2:
                after_the_others(rank, 0, 1)
            dist.all_reduce(torch.ones(9 if rank == 2 else 8))
            dist.barrier()

    job(tmp_path, body, monkeypatch)
    text = analysed(tmp_path)
    assert "Error type: SIZE_OR_SYNTAX_MISMATCH" in text, text
    assert "[[8]]" in text and "[[9]]" in text, text


def test_a_rank_that_does_not_come(tmp_path, monkeypatch):
    def body(rank, size):
        group = dist.new_group(list(range(size)))
        dist.all_reduce(torch.ones(8), group=group)
        if rank == 2:
            after_the_others(rank, 0, 1)
            report("both wait")
            limit = time.monotonic() + DEADLINE_SECONDS
            while len(list(tmp_path.glob("rondo-*.json"))) < size and time.monotonic() < limit:
                time.sleep(0.05)
            return

        def set_timeout():
            stay_until("both wait")
            group.set_timeout(timedelta(seconds=1))

        impatience = threading.Thread(target=set_timeout)
        impatience.start()
        with pytest.raises(dist.DistBackendError, match="waited 1 s for rank 2"):
            dist.all_reduce(torch.ones(8), group=group)
        impatience.join()

    job(tmp_path, body, monkeypatch)
    text = analysed(tmp_path)
    assert "Not all ranks joining collective" in text and "missing ranks: {2}" in text, text
    assert re.search(r"collective state: started", text), text


def test_a_job_without_faults_matches(tmp_path, monkeypatch):
    def body(rank, size):
        pair = dist.new_group([0, 2])
        for turn in range(5):
            dist.all_reduce(torch.ones(8))
            dist.all_gather_into_tensor(torch.empty(6), torch.ones(2))
            dist.reduce_scatter_tensor(torch.empty(2), torch.ones(6))
            dist.broadcast(torch.ones(3), turn % size)
            dist.all_to_all_single(torch.empty(6), torch.ones(6))
            dist.barrier()
            if rank != 1:
                dist.all_reduce(torch.ones(100), group=pair)
                other = 2 - rank
                dist.batch_isend_irecv(
                    [
                        dist.P2POp(dist.isend, torch.ones(4), other),
                        dist.P2POp(dist.irecv, torch.ones(4), other),
                    ]
                )

    job(tmp_path, body, monkeypatch)
    text = analysed(tmp_path)
    assert "rror" not in text and "Not all ranks" not in text, text
    with open(tmp_path / "dumps" / "rondo_0", "rb") as file:
        dump = pickle.load(file)
    assert dump["version"] == "2.10"
    first = next(e for e in dump["entries"] if e["profiling_name"] == "nccl:all_reduce")
    assert first["state"] == "completed" and first["input_dtypes"] == ["Float"]
    assert abs(first["time_created_ns"] - time.time_ns()) < 600 * 10**9
    assert "[0, 2]" in {group["ranks"] for group in dump["pg_config"].values()}


def test_communicators_have_the_names_of_their_groups(monkeypatch):
    def body(rank, size):
        described = dist.new_group(group_desc="data")
        other = dist.new_group()
        for group in (None, described, other):
            dist.all_reduce(torch.ones(8), group=group)
        shown = subprocess.run(
            [RONDO, "ps", str(os.getpid()), "--json"], capture_output=True, text=True, timeout=600
        )
        names = {one["name"] for one in json.loads(shown.stdout)["communicators"]}
        assert names == {"default_pg", "data", f"group {other.group_name}"}, shown.stdout
        traced = called(RONDO, "trace", os.getpid())
        for name in names:
            assert f" {name}: 2 ranks" in traced, traced
        dist.barrier()

    assert run(body, 2) == [0, 0]
