#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What torch.distributed and each layer of the backend `rondo` add to one small all_reduce.

  python bench/torch_layers.py [--ranks 1 2] [--bytes 4 4096] [--rounds 200] [--bind] [--json FILE]

Needs an installed torch and api/torch. A figure is the time of one call on the slowest rank, in
microseconds: the best and the median of rounds of 50 calls, in which the layers take turns.

  C           Rondo's C function through ctypes, with everything bound before
  group       the method of the group that torch.distributed calls
  blocking    dist.all_reduce()
  async       dist.all_reduce(async_op=True) and wait()
  future      dist.all_reduce(async_op=True).get_future().wait(), as DistributedDataParallel waits
  nothing     dist.all_reduce() on a group in Python that does nothing: torch's own part
  gloo        dist.all_reduce() on gloo
  gloo async  the same with async_op=True and wait()
  step        one step of DistributedDataParallel on an MLP with 0.1 million parameters
  gloo step   the same on gloo
"""

import argparse
import ctypes
import json
import multiprocessing
import os
import tempfile
import time

import torch
import torch.distributed as dist

FORK = multiprocessing.get_context("fork")
CALLS = 50  # of a round
FLOAT32, SUM = 7, 0


class Done(dist._Work):
    def wait(self, timeout=None):
        return True


class Nothing(dist.ProcessGroup):
    """Finishes every all_reduce at once."""

    def __init__(self, rank, size):
        super().__init__(rank, size)
        self.done = Done()

    def allreduce(self, tensors, opts):
        return self.done


def c_call(group, tensor):
    from rondo.torch.library import lib

    place, count = ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(tensor.numel())
    return lambda: lib.ncclAllReduce(place, place, count, FLOAT32, SUM, group._comm, None)


def layers(groups, byte_count):
    tensor = torch.ones(max(1, byte_count // 4))
    rondo, gloo, nothing = groups["rondo"], groups["gloo"], groups["nothing"]
    options = dist.AllreduceOptions()
    options.asyncOp = False
    return {
        "C": c_call(rondo, tensor),
        "group": lambda: rondo.allreduce([tensor], options),
        "blocking": lambda: dist.all_reduce(tensor, group=rondo),
        "async": lambda: dist.all_reduce(tensor, group=rondo, async_op=True).wait(),
        "future": lambda: dist.all_reduce(tensor, group=rondo, async_op=True).get_future().wait(),
        "nothing": lambda: dist.all_reduce(tensor, group=nothing),
        "gloo": lambda: dist.all_reduce(tensor, group=gloo),
        "gloo async": lambda: dist.all_reduce(tensor, group=gloo, async_op=True).wait(),
    }


def steps(groups):
    from torch.nn.parallel import DistributedDataParallel

    def step_of(group):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256)
        )
        model = DistributedDataParallel(model, process_group=group)
        batch = torch.randn(8, 128)
        return lambda: model(batch).square().mean().backward()

    return {"step": step_of(groups["rondo"]), "gloo step": step_of(groups["gloo"])}


def rounds_of(calls, rounds, repeats):
    """Microseconds of one call, for each round."""
    times = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(repeats):
            call()
    for _ in range(rounds):
        for name, call in calls.items():
            dist.barrier()
            call()
            begin = time.perf_counter()
            for _ in range(repeats):
                call()
            times[name].append((time.perf_counter() - begin) / repeats * 1e6)
    slowest = {}
    for name, mine in times.items():
        all_ranks = torch.tensor(mine)
        dist.all_reduce(all_ranks, dist.ReduceOp.MAX)
        slowest[name] = (all_ranks.min().item(), all_ranks.median().item())
    return slowest


def run_rank(rank, size, store, options, results):
    torch.set_num_threads(1)
    if options.bind:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    groups = {name: dist.new_group(backend=name) for name in ("rondo", "gloo")}
    groups["nothing"] = Nothing(rank, size)
    world = dist.distributed_c10d._world
    world.pg_map[groups["nothing"]] = world.pg_map[groups["rondo"]]
    world.pg_group_ranks[groups["nothing"]] = world.pg_group_ranks[groups["rondo"]]
    rows = []
    for byte_count in options.bytes:
        figures = rounds_of(layers(groups, byte_count), options.rounds, CALLS)
        rows += [(byte_count, name, *both) for name, both in figures.items()]
    if options.steps:
        figures = rounds_of(steps(groups), max(5, options.rounds // 20), CALLS)
        rows += [(None, name, *both) for name, both in figures.items()]
    dist.barrier()
    if rank == 0:
        results.put(rows)
    del world.pg_map[groups["nothing"]], world.pg_group_ranks[groups["nothing"]]
    dist.destroy_process_group()  # threads of gloo must not outlive the interpreter


def measure(size, options):
    results = FORK.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            FORK.Process(target=run_rank, args=(rank, size, f"{folder}/store", options, results))
            for rank in range(size)
        ]
        for process in processes:
            process.start()
        rows = results.get()
        for process in processes:
            process.join()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--bytes", type=int, nargs="+", default=[4, 4096])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--bind", action="store_true", help="a core for each rank and its threads")
    parser.add_argument("--no-steps", action="store_false", dest="steps")
    parser.add_argument("--json")
    options = parser.parse_args()
    measured = {}
    for size in options.ranks:
        measured[size] = measure(size, options)
        print(f"{size} ranks, us{'best':>18}{'median':>10}")
        for byte_count, name, best, median in measured[size]:
            size_of = "" if byte_count is None else f"{byte_count} B"
            print(f"{size_of:>8} {name:12}{best:10.1f}{median:10.1f}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(measured, file)


if __name__ == "__main__":
    main()
