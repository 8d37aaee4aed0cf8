#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collectives of torch.distributed on CPU tensors: compares Rondo with gloo, in turns in one run.

  python bench/torch_compare.py [--ranks 2 4] [--max 64M] [--png FILE] [--json FILE] [--quick]
  python bench/torch_compare.py --only all_reduce --least 64M --no-ddp       one line of it
  python bench/torch_compare.py --only --loaders 1                           DDP beside data loaders
  mpirun -n 2 python bench/torch_compare.py       and mpi, where this build of torch has it

Needs an installed torch and api/torch (matplotlib for --png). Every call is timed on every rank;
the slowest rank counts; figures are medians. "C" is Rondo's C function on the same memory, "async"
is async_op=True and wait(), "fake" is torch's own backend that does nothing: the cost of any
backend. DDP is a step of a model with 25 million parameters; with --loaders each rank's batches
come from that many processes of a DataLoader, which prepare a batch in some 30 ms. Ends with the
targets that were measured.
"""

import argparse
import importlib.util
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
BESIDE = ("C", "fake", "async", "mpi")  # columns that only some lines have

# Targets; those that depend on the number of ranks are by ranks.
MEAN_RATIO = {2: 12, 4: 10}
LARGE_ALL_REDUCE, LARGE_RATIO = 64 << 20, {2: 5, 4: 2.5}
MAX_ADDED_US, MAX_ADDED_SHARE, SHARE_FROM = 8, 0.05, 256 << 10
MAX_ASYNC_US = {2: 12}
MAX_EXPOSED = 0.4
WIDTH = 2500  # of DDP's model: 4 layers of WIDTH x WIDTH


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
    """The slowest rank of each repetition; the median of these, in microseconds."""
    tensor = torch.tensor(times)
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor.median().item() * 1e6


def compare(calls, byte_count, quick):
    """Medians of calls that take turns. The first call of each turn does not count, since the
    caches hold the data of the call before."""
    turns = 3 if quick else 7
    repeats = max(3, min(50, (1 << 25) // max(byte_count, 1)))
    collected = {name: [] for name in calls}
    for call in calls.values():
        timed(call, 2)
    for _ in range(turns):
        for name, call in calls.items():
            dist.barrier()
            timed(call, 1)
            collected[name] += timed(call, repeats)
    return {name: slowest(times) for name, times in collected.items()}


def send_nothing(state, bucket):
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


class Prepared(torch.utils.data.IterableDataset):
    """Batches without end, each the result of a computation, as decoding pictures would be."""

    def __iter__(self):
        torch.set_num_threads(1)
        picture = torch.randn(1 << 20)
        while True:
            for _ in range(30):
                picture = picture.sin().add_(1)
            yield picture[: 4 * WIDTH].view(4, WIDTH)


def batches_of(loaders):
    """The batches of a rank: one from memory, again and again, or those of a DataLoader."""
    if loaders:
        yield from torch.utils.data.DataLoader(Prepared(), batch_size=None, num_workers=loaders)
    batch = torch.randn(4, WIDTH)
    while True:
        yield batch


def ddp_steps(group, batches, hook=None):
    """A step with gradients summed (by the hook), and one in which DDP does nothing."""
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), process_group=group)
    if hook is not None:
        model.register_comm_hook(None, hook)

    def step():
        model(next(batches)).square().mean().backward()

    def lonely():
        with model.no_sync():
            step()

    return {"step": step, "lonely": lonely}


def ddp(groups, options):
    calls, batches = {}, batches_of(options.loaders)
    for name, group in groups.items():
        for kind, call in ddp_steps(group, batches).items():
            calls[f"{name} {kind}"] = call
    calls["nothing sent"] = ddp_steps(groups["gloo"], batches, send_nothing)["step"]
    return compare(calls, 100 << 20, options.quick)


def all_groups(by_mpirun):
    """One group of every backend, with all ranks in each."""
    import torch.testing._internal.distributed.fake_pg  # noqa: F401  registers "fake"

    names = ["gloo", "rondo", "fake"]
    if by_mpirun and dist.is_mpi_available():
        names.append("mpi")
    return {name: dist.new_group(backend=name) for name in names}


def run_rank(rank, size, init_method, options, by_mpirun=False):
    torch.set_num_threads(1)
    if options.bind:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    dist.init_process_group("gloo", init_method=init_method, rank=rank, world_size=size)
    groups = all_groups(by_mpirun)
    fake = groups.pop("fake")
    rows = []
    for name in options.only:
        for byte_count in sizes(options):
            count = byte_count // 4
            calls = {who: call_of(name, group, count, size) for who, group in groups.items()}
            if name == "all_reduce":
                calls["C"] = c_call(groups["rondo"], count)
                calls["async"] = call_of(name, groups["rondo"], count, size, True)
                calls["fake"] = call_of(name, fake, count, size)
            rows.append([name, byte_count, compare(calls, byte_count, options.quick)])
    both = {name: groups[name] for name in ("gloo", "rondo")}
    steps = ddp(both, options) if options.ddp and not options.quick else None
    dist.barrier()
    dist.destroy_process_group()  # threads of gloo must not outlive the interpreter
    return rows, steps


def sizes(options):
    byte_count = 4
    while byte_count <= options.max:
        if byte_count >= options.least:
            yield byte_count
        byte_count *= 16


def serve(rank, size, folder, options, results):
    answer = run_rank(rank, size, f"file://{folder}/store", options)
    if rank == 0:
        results.put(answer)


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


def mpirun_world():
    """Rank and size if mpirun has started this process, else None."""
    if not any(name in os.environ for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK")):
        return None
    from rondo.torch.launchers import launched

    me = launched()
    return me.rank, me.size


def under_mpirun(rank, size, options):
    from rondo.torch.launchers import set_variables

    set_variables()
    return run_rank(rank, size, "env://", options, by_mpirun=True)


def show(size, rows, steps):
    print(f"{size} ranks, medians in us; ratio: gloo / rondo")
    columns = [column for column in BESIDE if any(column in times for _, _, times in rows)]
    beside = "".join(f"{column:>10}" for column in columns)
    print(f"{'collective':16}{'bytes':>12}{'gloo':>12}{'rondo':>12}{'ratio':>8}{beside}")
    for name, byte_count, times in rows:
        more = "".join(f"{times[k]:10.1f}" if k in times else " " * 10 for k in columns)
        ratio = ratio_of(times)
        print(
            f"{name:16}{byte_count:12}{times['gloo']:12.1f}{times['rondo']:12.1f}{ratio:8.2f}{more}"
        )
    if not dist.is_mpi_available():
        print("mpi: this build of torch has none")
    if steps:
        print("DDP, 25 million parameters, us:", {k: round(v) for k, v in steps.items()})
    for what, value, limit, at_least in targets(size, rows, steps):
        reached = value >= limit if at_least else value <= limit
        sign = "at least" if at_least else "at most"
        print(f"{'reached' if reached else 'MISSED'} {what}: {value:.2f}, {sign} {limit:g}")


def ratio_of(times):
    return times["gloo"] / times["rondo"]


def mean_ratio(rows):
    return math.exp(sum(math.log(ratio_of(times)) for _, _, times in rows) / len(rows))


def targets(size, rows, steps):
    """(what, value, limit, whether the limit is a lower one), for the measured targets."""
    if rows:
        yield "smallest ratio", min(ratio_of(times) for _, _, times in rows), 1, True
    if size in MEAN_RATIO and {name for name, _, _ in rows} == set(COLLECTIVES):
        yield "geometric mean of the ratios", mean_ratio(rows), MEAN_RATIO[size], True
    with_c = {b: times for name, b, times in rows if name == "all_reduce"}
    if LARGE_ALL_REDUCE in with_c and size in LARGE_RATIO:
        ratio = ratio_of(with_c[LARGE_ALL_REDUCE])
        yield "all_reduce of 64 MiB, ratio", ratio, LARGE_RATIO[size], True
    small = [t["rondo"] - t["C"] for b, t in with_c.items() if b < SHARE_FROM]
    large = {b: t["rondo"] / t["C"] - 1 for b, t in with_c.items() if b >= SHARE_FROM}
    if small:
        yield "a blocking call adds to the C call, us", max(small), MAX_ADDED_US, False
    for byte_count, share in large.items():
        yield f"to a call of {byte_count} bytes, as a share", share, MAX_ADDED_SHARE, False
    if 4 in with_c and size in MAX_ASYNC_US:
        yield "async_op and wait, 4 B, us", with_c[4]["async"], MAX_ASYNC_US[size], False
    if steps:
        # DDP copies gradients into buckets and back even if nothing is sent.
        both = {who: steps[f"{who} step"] for who in ("gloo", "rondo")}
        for over, less in (
            ("a step in which DDP sends nothing", {who: steps["nothing sent"] for who in both}),
            ("a step without DDP's work", {who: steps[f"{who} lonely"] for who in both}),
        ):
            share = (both["rondo"] - less["rondo"]) / max(both["gloo"] - less["gloo"], 1)
            yield f"DDP: exposed over {over}, rondo / gloo", share, MAX_EXPOSED, False


def draw(path, measured):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(measured), figsize=(6 * len(measured), 4), sharey=True)
    for axis, (size, rows) in zip([axes] if len(measured) == 1 else axes, measured.items()):
        for name in sorted({name for name, _, _ in rows}, key=COLLECTIVES.index):
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
    parser.add_argument("--least", type=parse_bytes, default=4)
    parser.add_argument("--max", type=parse_bytes, default=64 << 20)
    parser.add_argument("--only", nargs="*", choices=COLLECTIVES, default=COLLECTIVES)
    parser.add_argument("--no-ddp", action="store_false", dest="ddp")
    parser.add_argument("--loaders", type=int, default=0, help="processes that make DDP's batches")
    parser.add_argument("--bind", action="store_true", help="a core for each rank and its threads")
    parser.add_argument("--png")
    parser.add_argument("--json")
    parser.add_argument("--quick", action="store_true", help="few repetitions, no DDP")
    options = parser.parse_args()
    if options.png and importlib.util.find_spec("matplotlib") is None:
        parser.error("--png needs matplotlib, which is not installed: pip install matplotlib")
    measured = {}
    world = mpirun_world()
    for size in [world[1]] if world else options.ranks:
        rows, steps = under_mpirun(*world, options) if world else measure(size, options)
        if world and world[0] > 0:
            return
        show(size, rows, steps)
        measured[size] = rows
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(measured, file)
    if options.png:
        draw(options.png, measured)


if __name__ == "__main__":
    main()
