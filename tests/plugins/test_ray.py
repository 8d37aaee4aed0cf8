# SPDX-License-Identifier: Apache-2.0
"""ray.util.collective on Rondo, with the real Ray: actors are processes of a local cluster."""

import os
import pathlib
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

ray = pytest.importorskip("ray")
import rondo.ray  # noqa: E402
import rondo.ray_meeting  # noqa: E402
from ray.util import collective  # noqa: E402
from ray.util.collective.types import ReduceOp  # noqa: E402

try:
    import torch
except ImportError:
    torch = None
DEADLINE_SECONDS = float(os.environ.get("RONDO_TEST_DEADLINE", "300"))  # for busy machines
FRAMEWORKS = ["numpy", pytest.param("torch", marks=pytest.mark.skipif(not torch, reason="torch"))]


@pytest.fixture(scope="module")
def cluster():
    environment = {name: value for name, value in os.environ.items() if name.startswith("RONDO_")}
    here = str(pathlib.Path(__file__).parent)  # actors import this file
    environment["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={
            "worker_process_setup_hook": "rondo.ray.register",
            "env_vars": environment,
        },
    )
    rondo.ray.register()
    yield
    ray.shutdown()


def end_this_process():
    os.kill(os.getpid(), signal.SIGKILL)


class Rank:
    """What tests ask an actor to do."""

    def join(self, size, rank, group, seconds=None, version=None, dies=""):
        if seconds is not None:
            os.environ["RONDO_INIT_TIMEOUT"] = str(seconds)
        if version is not None:
            rondo.ray_meeting.version = lambda: version
        if dies == "before its ticket":
            rondo.ray_meeting.Meeting._take = lambda meeting: end_this_process()
        if dies == "with its ticket":
            rondo.ray_meeting.Meeting.connect = lambda *_: end_this_process()
        collective.init_collective_group(size, rank, "rondo", group)

    def call(self, function, group, *arguments):
        return function(collective.get_rank(group), group, *arguments)

    def pid(self):
        return os.getpid()

    def leave(self, group):
        collective.destroy_collective_group(group)
        return collective.is_group_initialized(group)


Actor = ray.remote(num_cpus=0)(Rank)


def get(references):
    return ray.get(references, timeout=DEADLINE_SECONDS)


def everywhere(actors, function, group, *arguments):
    return get([actor.call.remote(function, group, *arguments) for actor in actors])


@pytest.fixture(scope="module")
def actors(cluster):
    return [Actor.remote(), Actor.remote()]


@pytest.fixture
def pair(actors, request):
    """Two actors and a group that they make themselves."""
    group = request.node.name
    get([actor.join.remote(2, rank, group) for rank, actor in enumerate(actors)])
    yield actors, group
    assert get([actor.leave.remote(group) for actor in actors]) == [False, False]


def filled(framework, shape, value, dtype="float32"):
    if framework == "numpy":
        return np.full(shape, value, dtype)
    return torch.full(shape, value, dtype=getattr(torch, dtype))


def all_of_them(rank, group, framework):
    """Every call of ray.util.collective on CPUs; what each rank has afterwards, as lists."""
    results = {}

    def array(value, *shape):
        return filled(framework, shape or (3,), value)

    for op in ReduceOp:
        results[f"all_reduce {op.name}"] = mine = array(rank + 2)
        collective.allreduce(mine, group, op)
    results["reduce"] = mine = array(rank + 1)
    collective.reduce(mine, 1, group)
    results["broadcast"] = mine = array(rank + 10)
    collective.broadcast(mine, 1, group)
    gathered = [array(0), array(0)]
    collective.allgather(gathered, array(rank + 5), group)
    results["all_gather 0"], results["all_gather 1"] = gathered
    results["reduce_scatter"] = mine = array(0)
    collective.reducescatter(mine, [array(rank + 1), array(10 * (rank + 1))], group)
    results["message"] = mine = array(rank)
    if rank == 0:
        collective.send(array(7), 1, group)
        collective.recv(mine, 1, group)
    else:
        collective.recv(mine, 0, group)
        collective.send(array(8), 0, group)
    collective.barrier(group)
    return {name: value.tolist() for name, value in results.items()}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_call_gives_both_actors_its_result(pair, framework):
    actors, group = pair
    results = everywhere(actors, all_of_them, group, framework)
    for rank, result in enumerate(results):
        assert result == {
            "all_reduce SUM": [5.0] * 3,
            "all_reduce PRODUCT": [6.0] * 3,
            "all_reduce MIN": [2.0] * 3,
            "all_reduce MAX": [3.0] * 3,
            "reduce": [1.0 if rank == 0 else 3.0] * 3,  # only the root's array changes
            "broadcast": [11.0] * 3,
            "all_gather 0": [5.0] * 3,
            "all_gather 1": [6.0] * 3,
            "reduce_scatter": [3.0 if rank == 0 else 30.0] * 3,
            "message": [8.0 if rank == 0 else 7.0] * 3,
        }


def strided(rank, group, framework):
    whole = filled(framework, (4, 6), rank + 1)
    collective.allreduce(whole[:, ::2], group)
    return whole.tolist()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_arrays_that_are_not_dense_keep_what_lies_between(pair, framework):
    actors, group = pair
    for rank, rows in enumerate(everywhere(actors, strided, group, framework)):
        assert rows == [[3.0, rank + 1.0] * 3] * 4


def sum_of(rank, group, framework, dtype):
    array = filled(framework, (1000,), rank + 1, dtype)
    collective.allreduce(array, group)
    return complex(array[999]).real


@pytest.mark.parametrize("dtype", ["int8", "int64", "float16", "float64", "complex64"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_elements_of_these_types_are_summed(pair, framework, dtype):
    actors, group = pair
    assert everywhere(actors, sum_of, group, framework, dtype) == [3.0, 3.0]


def large(rank, group):
    array = np.full(1 << 20, rank + 1, np.float32)
    collective.allreduce(array, group)
    other = np.empty_like(array)
    if rank == 0:
        collective.send(array, 1, group)
    else:
        collective.recv(other, 0, group)
        return float(other.sum())
    return float(array.sum())


def test_large_arrays_and_messages_arrive_whole(pair):
    actors, group = pair
    assert everywhere(actors, large, group) == [3.0 * (1 << 20)] * 2


def refused(rank, group, argument):
    texts = []
    for call in (
        lambda: collective.allreduce(argument, group),  # as Ray passes it
        lambda: collective.allreduce(np.array(["text"]), group),
        lambda: collective.allgather([np.zeros(2), np.zeros(3)], np.zeros(2), group),
    ):
        try:
            call()
            texts.append("not refused")
        except (TypeError, ValueError) as error:
            texts.append(str(error))
    return texts


def test_what_cannot_be_done_has_a_reason_and_a_remedy(pair):
    actors, group = pair
    for texts in everywhere(actors, refused, group, np.ones(100_000)):
        assert "read-only array; copy it first (array.copy())" in texts[0]
        assert "'sum' is not defined for elements of str128" in texts[1]
        assert "all_gather: 3 x float64 are not 1 times 2 x float64" in texts[2]


def test_a_group_that_the_driver_declares_is_made_by_the_first_call(actors):
    collective.create_collective_group(actors, 2, [1, 0], "rondo", "declared")
    assert everywhere(actors, rank_and_sum, "declared") == [(1, 3.0), (0, 3.0)]


def rank_and_sum(_, group):
    rank = collective.get_group_handle(group).rank
    array = np.full(2, rank + 1.0)
    collective.allreduce(array, group)
    return rank, float(array[0])


def test_a_group_of_the_same_name_can_be_made_again(actors):
    for first in (0, 1, 0):  # ranks change, so no old entry may be taken for a new one
        get([actor.join.remote(2, rank ^ first, "again") for rank, actor in enumerate(actors)])
        ranks = everywhere(actors, rank_and_sum, "again")
        assert ranks == [(first, 3.0), (1 - first, 3.0)]
        get([actor.leave.remote("again") for actor in actors])


# ---- faults ----


def error_of(reference):
    with pytest.raises(ray.exceptions.RayError) as caught:
        get(reference)
    return str(caught.value)


@pytest.mark.parametrize("dies", ["before its ticket", "with its ticket"])
def test_an_actor_that_dies_in_init_is_named_at_once(actors, dies):
    """The limit is ten times as long as the test waits."""
    others = [
        actor.join.remote(3, rank, f"dies {dies}", 10 * DEADLINE_SECONDS)
        for rank, actor in enumerate(actors)
    ]
    dead = Actor.remote().join.remote(3, 2, f"dies {dies}", dies=dies)
    for text in map(error_of, others):
        assert f"group 'dies {dies}': rank 2 (actor " in text
        assert "died before the 3 ranks had met" in text
    assert "died" in error_of(dead)


def test_a_declared_actor_that_dies_before_it_comes_is_named_at_once(cluster):
    actors = [Actor.remote(), Actor.remote()]
    collective.create_collective_group(actors, 2, [0, 1], "rondo", "gone")
    ray.kill(actors[1])
    text = error_of(actors[0].call.remote(rank_and_sum, "gone"))
    assert "group 'gone': rank 1 (actor " in text and "never seen) died before the 2 ranks" in text


def test_ranks_that_do_not_come_are_named_after_the_limit(cluster):
    lonely = Actor.remote()
    text = error_of(lonely.join.remote(3, 0, "lonely", 1))
    assert "rank 0 waited 1 s (RONDO_INIT_TIMEOUT) for 2 of 3 ranks that did not come: 1, 2" in text
    text = error_of(Actor.remote().join.remote(3, 1, "lonely", 1))
    assert "rank 1 waited 1 s (RONDO_INIT_TIMEOUT) for 1 of 3 ranks that did not come: 0" in text


def test_ranks_that_disagree_about_the_size_are_named(cluster):
    joins = [Actor.remote().join.remote(2, 0, "sizes"), Actor.remote().join.remote(3, 1, "sizes")]
    for text in map(error_of, joins):
        assert re.search(r"group 'sizes': \d ranks for rank \d, \d for rank \d \(pid ", text)


def test_two_wheels_are_refused_with_both_versions(cluster):
    joins = [
        Actor.remote().join.remote(2, 0, "wheels"),
        Actor.remote().join.remote(2, 1, "wheels", version="0.0.9"),
    ]
    for text in map(error_of, joins):
        assert "has rondo 0." in text and ") has 0.0.9; install the same wheel" in text


def test_a_killed_actor_is_named_by_the_call_that_needs_it(cluster):
    actors = [Actor.remote(), Actor.remote()]
    get([actor.join.remote(2, rank, "killed") for rank, actor in enumerate(actors)])
    pid = get(actors[1].pid.remote())
    waits = actors[0].call.remote(rank_and_sum, "killed")
    os.kill(pid, signal.SIGKILL)
    text = error_of(waits)
    assert f"rank 1 (pid {pid}" in text


def test_the_error_of_an_old_ray_names_the_release_that_is_needed(tmp_path):
    """A module in place of Ray 2.55, which has no such function."""
    (tmp_path / "ray" / "util" / "collective").mkdir(parents=True)
    (tmp_path / "ray" / "__init__.py").write_text("__version__ = '2.55.0'")
    for folder in ("util", "util/collective"):
        (tmp_path / "ray" / folder / "__init__.py").write_text("")
    source = pathlib.Path(rondo.ray.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{source}"}
    done = subprocess.run(
        [sys.executable, "-c", "import rondo.ray"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 1
    assert "rondo: Ray 2.55.0 has no ray.util.collective.register_coll" in done.stderr
    assert "install Ray 2.56 or newer: pip install -U ray" in done.stderr
