"""Rondo's speed targets, and whether this run reached them."""
from figures import fastest, geometric_mean, interval, median, paired, size_text
from groups import DIRECT_LOOPS, MPIS, OWN_LOOPS

SLOWER = 1.05


def cells(results, ranks, operation="all_reduce", smallest=0):
    return [(size, cell) for (n, op, size), cell in sorted(results.items())
            if n == ranks and op == operation and size >= smallest and cell.get("rondo")]


def ranks_of(results):
    return sorted({n for n, op, _ in results if op == "all_reduce"})


def verdict(misses, measured):
    if not measured:
        return "unmeasured"
    return "met" if not misses else "missed: " + ", ".join(misses)


def never_slower(results, ranks):
    misses, measured = [], 0
    for size, cell in cells(results, ranks):
        best = fastest(cell, MPIS)
        if best is None:
            continue
        measured += 1
        ratios = paired(cell, "rondo", best)
        if interval(ratios)[0] > SLOWER:
            misses.append(f"{size_text(size)} takes {median(ratios):.2f} of {best}'s")
    return verdict(misses, measured)


def mean_speedup(results, ranks, wanted):
    speedups = []
    for _, cell in cells(results, ranks, smallest=16 << 10):
        best = fastest(cell, MPIS)
        if best is not None:
            speedups.append(median(paired(cell, best, "rondo")))
    if not speedups:
        return "unmeasured"
    mean = geometric_mean(speedups)
    return f"{'met' if mean >= wanted else 'missed'}: {mean:.2f} times"


def near(results, ranks, who, loops, limit):
    misses, measured = [], 0
    for size, cell in cells(results, ranks, smallest=256 << 10):
        best = fastest(cell, loops)
        if best is None or who not in cell:
            continue
        measured += 1
        ratio = median(paired(cell, who, best))
        if ratio > limit:
            misses.append(f"{size_text(size)} {ratio:.2f} of {best}")
    return verdict(misses, measured)


def small_call(results):
    cell = results.get((2, "all_reduce", 4), {})
    if not cell.get("rondo"):
        return "unmeasured"
    ratio = median(paired(cell, "rondo", "line"))
    return f"{'met' if ratio <= 1.5 else 'missed'}: {ratio:.2f} of the exchange"


def at_most(extra, key, limit, show):
    if key not in extra:
        return "unmeasured"
    return f"{'met' if extra[key] <= limit else 'missed'}: {show(extra[key])}"


def all_targets(results, extra):
    """Pairs of a target and its verdict."""
    rows = []
    for n in ranks_of(results):
        wanted = 1.5 if n == 2 else 2.5
        rows += [
            (f"{n} ranks: at no size slower than the best MPI", never_slower(results, n)),
            (f"{n} ranks: {wanted} times the best MPI, mean over 16K to 64M",
             mean_speedup(results, n, wanted)),
            (f"{n} ranks: within 1.15 of the best own loop from 256K",
             near(results, n, "rondo", OWN_LOOPS, 1.15)),
            (f"{n} ranks as threads: within 1.2 of the direct loop from 256K",
             near(results, n, "rondo_threads", DIRECT_LOOPS, 1.2)),
            (f"{n} ranks, ncclMemAlloc: within 1.2 of the direct loop from 256K",
             near(results, n, "rondo_alloc", DIRECT_LOOPS, 1.2)),
        ]

    def milliseconds(value):
        return f"{value * 1e3:.0f} ms"

    def mebibytes(value):
        return f"{value / (1 << 20):.1f} MiB"

    return rows + [
        ("2 ranks, 4 B: within 1.5 of the cache-line exchange", small_call(results)),
        ("group of 100 all-reduces of 4K: a quarter of 100 calls",
         at_most(extra, "group_ratio", 0.25, lambda v: f"{v:.2f}")),
        ("init of 8 processes under 50 ms", at_most(extra, "init_8_processes", 0.05, milliseconds)),
        ("init of 64 threads under 200 ms", at_most(extra, "init_64_threads", 0.2, milliseconds)),
        ("shared memory at most 4 MiB a rank and communicator",
         at_most(extra, "memory_per_rank", 4 << 20, mebibytes)),
        ("33 communicators of 8 ranks under 64 MiB a rank",
         at_most(extra, "memory_33_communicators", 64 << 20, mebibytes)),
        ("librondo.so under 4 MB stripped",
         at_most(extra, "library_bytes", 4_000_000, lambda v: f"{v / 1e6:.2f} MB")),
    ]
