# SPDX-License-Identifier: Apache-2.0
"""Rondo's speed targets, and whether this run reached them."""
from conditions import LIMITS, views
from contestants import DIRECT_LOOPS, OWN_LOOPS, RIVALS
from figures import fastest, geometric_mean, interval, median, paired, size_text

NOTICED = 0.1e-6  # seconds below which no difference counts
SUMS = ("all_reduce", "reduce_scatter")
MEANS = {2: 1.3, 4: 2.0}  # times the best, for SUMS, by number of ranks; 2.5 for more
MORE_RANKS = 2.5


def cells(results, ranks, operation="all_reduce", smallest=0):
    return [(size, cell) for (n, op, size), cell in sorted(results.items())
            if n == ranks and op == operation and size >= smallest and cell.get("rondo")]


def ranks_of(results):
    return sorted({n for n, op, _ in results})


def operations_of(results, ranks):
    return sorted({op for n, op, _ in results if n == ranks})


def verdict(misses, measured):
    if not measured:
        return "unmeasured"
    return "met" if not misses else "missed: " + ", ".join(misses)


def never_slower(results, ranks, limit):
    misses, measured = [], 0
    for operation in operations_of(results, ranks):
        for size, cell in cells(results, ranks, operation):
            best = fastest(cell, RIVALS)
            ratios = paired(cell, "rondo", best) if best else []
            if not ratios:
                continue
            measured += 1
            beyond = median([a - b for a, b in zip(cell["rondo"], cell[best]) if a and b])
            if interval(ratios)[0] > limit and beyond > NOTICED:
                misses.append(f"{operation} {size_text(size)} {median(ratios):.2f} of {best}")
    return verdict(misses, measured)


def mean_speedup(results, ranks, sums):
    """The mean over 16 KiB and more of each operation that sums, or of each that only copies."""
    means = []
    wanted = MEANS.get(ranks, MORE_RANKS) if sums else 1.0
    for operation in operations_of(results, ranks):
        if (operation in SUMS) != sums or operation in ("reduce", "barrier"):
            continue
        speedups = []
        for _, cell in cells(results, ranks, operation, smallest=16 << 10):
            best = fastest(cell, RIVALS)
            both = paired(cell, best, "rondo") if best else []
            speedups += [median(both)] if both else []
        if speedups:
            means.append((operation, geometric_mean(speedups)))
    if not means:
        return "unmeasured"
    reached = all(mean >= wanted for _, mean in means)
    ratios = ", ".join(f"{operation} {mean:.2f}" for operation, mean in means)
    return f"{'met' if reached else 'missed'}: {ratios}"


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
    if not cell.get("rondo") or not cell.get("line"):
        return "unmeasured"
    ratio = median(paired(cell, "rondo", "line"))
    return f"{'met' if ratio <= 1.5 else 'missed'}: {ratio:.2f} of the exchange"


def at_most(extra, key, limit, show):
    if key not in extra:
        return "unmeasured"
    return f"{'met' if extra[key] <= limit else 'missed'}: {show(extra[key])}"


def of_view(condition, where, results):
    """Targets of one condition and bin; `where` names them. The floors and means: of calls in a
    row."""
    rows = []
    for n in ranks_of(results):
        rows.append((f"{n} ranks, {where}: nowhere above {LIMITS[condition]:g} of the best",
                     never_slower(results, n, LIMITS[condition])))
        if condition != "row":
            continue
        rows += [
            (f"{n} ranks, {where}: {MEANS.get(n, MORE_RANKS)} times the best, mean from 16K, where "
             "data are summed", mean_speedup(results, n, sums=True)),
            (f"{n} ranks, {where}: 1.0 times the best, mean from 16K, where data only move",
             mean_speedup(results, n, sums=False)),
            (f"{n} ranks, {where}: within 1.15 of the best own loop from 256K",
             near(results, n, "rondo", OWN_LOOPS, 1.15)),
            (f"{n} ranks as threads, {where}: within 1.2 of the direct loop from 256K",
             near(results, n, "rondo_threads", DIRECT_LOOPS, 1.2)),
            (f"{n} ranks, ncclMemAlloc, {where}: within 1.2 of the direct loop from 256K",
             near(results, n, "rondo_alloc", DIRECT_LOOPS, 1.2)),
        ]
    if condition == "row" and 2 in ranks_of(results):
        rows.append((f"2 ranks, 4 B, {where}: within 1.5 of the cache-line exchange",
                     small_call(results)))
    return rows


def all_targets(results, extra):
    """Pairs of a target and its verdict. `results`: by condition."""
    rows = []
    for condition, name, part in views(results):
        rows += of_view(condition, f"{condition} {name}".strip(), part)

    def milliseconds(value):
        return f"{value * 1e3:.0f} ms"

    def mebibytes(value):
        return f"{value / (1 << 20):.1f} MiB"

    return rows + [
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
