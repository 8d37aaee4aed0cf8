# SPDX-License-Identifier: Apache-2.0
"""Which things change the bits of a sum: `python -m rondo.torch.probe --backend gloo`.

Starts ranks of its own on this machine and reduces the same numbers again and again: with more
ranks, at other places of a buffer, in longer messages, by other collectives. Prints a table that
fits into an issue, in Markdown, or JSON with --json. For every backend of torch.distributed; nccl
needs a GPU for each rank.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta

import torch
import torch.distributed as dist

from rondo.autoload import register

LEAVES = 8
COUNTS = (1, 257, 4096, 65536, 1048576)
REPETITIONS = 20
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
ROWS = (  # what changes; the question that observe() answers for it
    ("number of ranks", "ranks"),
    ("position in the buffer", "position"),
    ("length of the message", "length"),
    ("alignment of the buffer", "alignment"),
    ("collective: reduce_scatter", "scattered"),
    ("rank that owns the part (reduce_scatter)", "owner"),
    ("repetition", "repetition"),
)

Reduce = Callable[[torch.Tensor], torch.Tensor]  # [n leaves, elements] of a rank -> [elements]


def leaf_values(dtype: torch.dtype) -> torch.Tensor:
    """[leaves, elements]: numbers whose sum depends on the order."""
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(LEAVES, 64, generator=generator)
    scales = torch.randint(-5, 6, (LEAVES, 64), generator=generator)
    return (values * 2.0**scales).to(dtype)


def bits(tensor: torch.Tensor) -> str:
    return tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes().hex()


def reducer(ordered: bool) -> Reduce:
    if ordered:
        from rondo.torch import all_reduce_ordered

        return lambda leaves: all_reduce_ordered(leaves, LEAVES)

    def plain(leaves: torch.Tensor) -> torch.Tensor:
        mine = leaves.clone()
        while len(mine) > 1:  # this rank's own sum is a tree in any case
            mine = mine[::2] + mine[1::2]
        total = mine[0].contiguous()
        dist.all_reduce(total)
        return total

    return plain


def scatterer(ordered: bool) -> Reduce:
    """The parts of all ranks, one after the other."""
    size = dist.get_world_size()

    def scattered(leaves: torch.Tensor) -> torch.Tensor:
        if ordered:
            from rondo.torch import reduce_scatter_ordered

            part = reduce_scatter_ordered(leaves, LEAVES)
        else:
            mine = leaves.clone()
            while len(mine) > 1:
                mine = mine[::2] + mine[1::2]
            part = mine.new_empty(mine.shape[1] // size)
            dist.reduce_scatter_tensor(part, mine[0].contiguous())
        parts = [torch.empty_like(part) for _ in range(size)]
        dist.all_gather(parts, part)
        return torch.cat(parts)

    return scattered


def observe(dtype: torch.dtype, device: torch.device, ordered: bool) -> dict[str, list[str]]:
    """For each question the results, as bits; one result: nothing changes them."""
    rank, size = dist.get_rank(), dist.get_world_size()
    values = leaf_values(dtype).to(device)
    mine = values[rank * LEAVES // size : (rank + 1) * LEAVES // size]
    reduce, scatter = reducer(ordered), scatterer(ordered)
    found = {"ranks": [bits(reduce(mine))]}
    found["repetition"] = [bits(reduce(mine)) for _ in range(REPETITIONS)]

    def repeated(count: int) -> torch.Tensor:
        """The same few columns all along."""
        return mine[:, :8].repeat(1, (count + 7) // 8)[:, :count].contiguous()

    longest = max(COUNTS)
    long = reduce(repeated(longest)).view(-1, 8)
    found["position"] = distinct_rows(long)
    found["length"] = [bits(reduce(repeated(count))[:1]) for count in COUNTS]
    shifted = torch.empty(len(mine) * 4096 + 1, dtype=dtype, device=device)[1:].view(len(mine), -1)
    shifted.copy_(repeated(4096))
    found["alignment"] = [bits(reduce(repeated(4096))), bits(reduce(shifted))]
    try:
        parts = scatter(repeated(65536)).view(size, -1, 8)
    except (RuntimeError, NotImplementedError):  # a backend without reduce_scatter
        return found
    found["owner"] = [bits(parts[owner, 0]) for owner in range(size)]
    found["scattered"] = [bits(reduce(repeated(65536))), bits(parts.reshape(-1))]
    return found


def distinct_rows(table: torch.Tensor) -> list[str]:
    as_words = table.cpu().view(torch.uint8).reshape(len(table), -1)
    return [bits(row) for row in torch.unique(as_words, dim=0)]


# ---- ranks ----


def serve(options: argparse.Namespace) -> None:
    """One rank. Rank 0 writes what it observed."""
    register()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cpu")
    if options.backend.startswith("nccl"):
        device = torch.device("cuda", rank % max(torch.cuda.device_count(), 1))
        torch.cuda.set_device(device)
    limit = timedelta(seconds=options.seconds)
    dist.init_process_group(
        options.backend, f"file://{options.serve}.store", limit, world_size=size, rank=rank
    )
    found = observe(DTYPES[options.dtype], device, options.ordered)
    if rank == 0:
        with open(options.serve, "w", encoding="utf-8") as file:
            json.dump(found, file)
    dist.barrier()
    dist.destroy_process_group()


def observed_by(size: int, options: argparse.Namespace, arguments: list[str]) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "found.json")
        command = [sys.executable, "-m", "rondo.torch.probe", *arguments, "--serve", result]
        here = {"WORLD_SIZE": str(size)}
        logs = [tempfile.TemporaryFile("w+") for _ in range(size)]
        ranks = [
            subprocess.Popen(
                command,
                env={**os.environ, **here, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.DEVNULL,
                stderr=logs[rank],
            )
            for rank in range(size)
        ]
        failed = None
        try:
            for rank, process in enumerate(ranks):
                if process.wait(timeout=2 * options.seconds) != 0 and failed is None:
                    failed = rank
                    logs[rank].seek(0)
                    reason = (logs[rank].read().strip().splitlines() or ["no message"])[-1]
        except subprocess.TimeoutExpired:
            failed, reason = size, f"no answer within {2 * options.seconds:.0f} s"
        finally:
            for process in ranks:
                process.kill()
                process.wait()
        if failed is not None:
            sys.exit(f"rondo.torch.probe: {size} ranks on {options.backend!r} failed: {reason}")
        with open(result, encoding="utf-8") as file:
            return json.load(file)


# ---- the answer ----


def rows(found: dict[int, dict[str, list[str]]]) -> Iterator[tuple[str, str, str]]:
    """(what changes, "yes", "no" or "-", how many results of how many)."""
    sizes = ", ".join(str(size) for size in found)
    for what, question in ROWS:
        if question == "ranks":
            results = [one["ranks"][0] for one in found.values()]
            among = f"on {sizes} ranks"
        else:
            largest = found[max(found)]
            if question not in largest:
                yield what, "-", "not supported by this backend"
                continue
            results, among = largest[question], f"on {max(found)} ranks"
        different = len(set(results))
        counted = f"{different} result{'s' * (different > 1)} {among}"
        yield what, "yes" if different > 1 else "no", counted


def main() -> None:
    parser = argparse.ArgumentParser("python -m rondo.torch.probe", description=__doc__)
    parser.add_argument("--backend", default="rondo", help="gloo, mpi, nccl, rondo, ...")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8], metavar="N",
                        help="numbers of ranks, each divides 8 (2 4 8)")  # fmt: skip
    parser.add_argument("--ordered", action="store_true", help="by all_reduce_ordered (rondo)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seconds", type=float, default=60, help="limit of a call (60)")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options)
    wrong = [n for n in options.ranks if n < 2 or LEAVES % n]
    if wrong:
        parser.error(f"--ranks {wrong[0]}: 2, 4 or 8 ranks share the 8 summands")
    if options.ordered and options.backend != "rondo":
        parser.error(f"--ordered: only the backend rondo has it, not {options.backend}")
    if options.backend.startswith("nccl") and torch.cuda.device_count() < max(options.ranks):
        parser.error(
            f"--backend {options.backend}: {max(options.ranks)} ranks need as many GPUs, this "
            f"machine has {torch.cuda.device_count()}; give --ranks"
        )
    found = {n: observed_by(n, options, sys.argv[1:]) for n in sorted(set(options.ranks))}
    name = options.backend + (" (ordered)" if options.ordered else "")
    table = list(rows(found))
    if options.json:
        facts = {"backend": name, "dtype": options.dtype, "torch": torch.__version__}
        facts["changes"] = [{"what": w, "bits_change": c, "results": r} for w, c, r in table]
        print(json.dumps(facts, indent=1))
        return None
    print(f"Sums of {options.dtype} by {name}, torch {torch.__version__}:\n")
    print("| what changes | do the bits? | |\n|---|---|---|")
    for what, changes, results in table:
        print(f"| {what} | {changes} | {results} |")
    return None


if __name__ == "__main__":
    main()
