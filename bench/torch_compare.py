#!/usr/bin/env python3
"""Collectives of torch.distributed on CPU tensors: Rondo beside gloo, taking turns in one run.

  python bench/torch_compare.py [--ranks 2 4] [--most 64M] [--png FILE] [--json FILE] [--quick]

Needs an installed torch and api/torch (matplotlib for --png). Every call is timed on every rank;
the slowest rank counts; medians. "C" is Rondo's C function on the same memory, "async" is
async_op=True and wait(). DDP is a step of a model with 25 million parameters.
"""

import argparse
import json
import math
import multiprocessing
import os
import tempfile
import time

import torch
import torch.distributed as dist

FORK = multiprocessing.get_context("fork")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")


def parse_bytes(text):
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1].upper(), 1)
    return int(text[:-1] if scale > 1 else text) * scale


def call_of(name, group, count, size, async_op=False):
    """count: elements of the larger buffer."""
    whole = torch.ones(max(count, size))
    part = torch.ones(max(count // size, 1))
    whole = whole[: len(part) * size]
    swapped = torch.empty_like(whole)
    run = {
        "all_reduce": lambda: dist.all_reduce(whole, group=group, async_op=async_op),
        "broadcast": lambda: dist.broadcast(whole, 0, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
        "all_to_all": lambda: dist.all_to_all_single(swapped, whole, group=group),
    }[name]
    return (lambda: run().wait()) if async_op else run


def c_call(group, count):
    from rondo.torch.library import lib

    tensor = torch.ones(count)
    place, float32, total = tensor.data_ptr(), 7, 0

    def call(tensor=tensor):
        lib.ncclAllReduce(place, place, count, float32, total, group._comm, None)

    return call


def timed(call, repeats):
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return times


def slowest(times):
    """Per repetition the slowest rank; the median of these, in microseconds."""
    tensor = torch.tensor(times)
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor.median().item() * 1e6


def compare(calls, byte_count, quick):
    """Medians of calls that take turns."""
    turns = 3 if quick else 7
    repeats = max(3, min(50, (1 << 22) // max(byte_count, 1)))
    collected = {name: [] for name in calls}
    for call in calls.values():
        timed(call, 2)
    for _ in range(turns):
        for name, call in calls.items():
            dist.barrier()
            collected[name] += timed(call, repeats)
    return {name: slowest(times) for name, times in collected.items()}


def ddp_steps(group, quick):
    """Seconds of a step: with gradients summed, and without."""
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    width = 2500
    layers = [torch.nn.Linear(width, width) for _ in range(4)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), process_group=group)
    batch = torch.randn(4, width)

    def step():
        model(batch).square().mean().backward()

    def lonely():
        with model.no_sync():
            step()

    return {"step": step, "lonely": lonely}


def ddp(groups, quick):
    calls = {}
    for name, group in groups.items():
        for kind, call in ddp_steps(group, quick).items():
            calls[f"{name} {kind}"] = call
    return compare(calls, 100 << 20, quick)


def serve(rank, size, folder, options, results):
    torch.set_num_threads(1)
    if options.bind:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size
    )
    groups = {"gloo": dist.new_group(backend="gloo"), "rondo": dist.new_group(backend="rondo")}
    rows = []
    for name in COLLECTIVES:
        byte_count = 4
        while byte_count <= options.most:
            calls = {
                who: call_of(name, group, byte_count // 4, size) for who, group in groups.items()
            }
            if name == "all_reduce":
                calls["C"] = c_call(groups["rondo"], byte_count // 4)
                calls["async"] = call_of(name, groups["rondo"], byte_count // 4, size, True)
            rows.append([name, byte_count, compare(calls, byte_count, options.quick)])
            byte_count *= 16
    steps = None if options.quick else ddp(groups, options.quick)
    if rank == 0:
        results.put((rows, steps))
    dist.barrier()


def measure(size, options):
    with tempfile.TemporaryDirectory() as folder:
        results = FORK.SimpleQueue()
        processes = [
            FORK.Process(target=serve, args=(rank, size, folder, options, results))
            for rank in range(size)
        ]
        for process in processes:
            process.start()
        answer = results.get()
        for process in processes:
            process.join()
    return answer


def show(size, rows, steps):
    print(f"{size} ranks, medians in us; ratio: gloo / rondo")
    print(
        f"{'collective':16}{'bytes':>12}{'gloo':>12}{'rondo':>12}{'ratio':>8}{'C':>10}{'async':>10}"
    )
    for name, byte_count, times in rows:
        more = "".join(f"{times[k]:10.1f}" for k in ("C", "async") if k in times)
        ratio = times["gloo"] / times["rondo"]
        print(
            f"{name:16}{byte_count:12}{times['gloo']:12.1f}{times['rondo']:12.1f}{ratio:8.2f}{more}"
        )
    mean = math.exp(
        sum(math.log(times["gloo"] / times["rondo"]) for _, _, times in rows) / len(rows)
    )
    print(f"geometric mean of the ratios: {mean:.1f}")
    if steps:
        exposed = {who: steps[f"{who} step"] - steps[f"{who} lonely"] for who in ("gloo", "rondo")}
        print("DDP, 25 million parameters, us:", {k: round(v) for k, v in steps.items()})
        print(f"exposed communication, rondo / gloo: {exposed['rondo'] / exposed['gloo']:.2f}")


def draw(path, measured):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(measured), figsize=(6 * len(measured), 4), sharey=True)
    for axis, (size, rows) in zip([axes] if len(measured) == 1 else axes, measured.items()):
        for name in COLLECTIVES:
            mine = [(b, t["gloo"] / t["rondo"]) for n, b, t in rows if n == name]
            axis.plot(*zip(*mine), marker="o", label=name)
        axis.set(xscale="log", yscale="log", xlabel="bytes", title=f"{size} ranks, CPU tensors")
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_ylabel("times as fast as gloo")
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--most", type=parse_bytes, default=64 << 20)
    parser.add_argument("--bind", action="store_true", help="a core for each rank and its threads")
    parser.add_argument("--png")
    parser.add_argument("--json")
    parser.add_argument("--quick", action="store_true", help="few repetitions, no DDP")
    options = parser.parse_args()
    measured = {}
    for size in options.ranks:
        rows, steps = measure(size, options)
        show(size, rows, steps)
        measured[size] = rows
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(measured, file)
    if options.png:
        draw(options.png, measured)


if __name__ == "__main__":
    main()
