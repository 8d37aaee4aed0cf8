# SPDX-License-Identifier: Apache-2.0
"""Statistics of paired rounds: medians, ratios and their intervals."""
import math


def median(values):
    """The median of the values that are not None. None is a round from which a contestant was
    cut."""
    ordered = sorted(value for value in values if value is not None)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def interval(values):
    """The 95 % interval of the median, free of assumptions: order statistics of the binomial.

    With fewer than six values no such interval exists: then it is their range.
    """
    ordered = sorted(values)
    n = len(ordered)
    best = 0
    for k in range(n // 2):
        # Probability that fewer than k + 1 of n values are on one given side of the median.
        tail = sum(math.comb(n, i) for i in range(k + 1)) / 2 ** n
        if 2 * tail <= 0.05:
            best = k
    return ordered[best], ordered[n - 1 - best]


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def paired(cell, first, second):
    """first / second for every round that has both."""
    return [a / b for a, b in zip(cell[first], cell[second]) if a and b]


def fastest(cell, names):
    """The one of the contestants `names` with the lowest median; None if none was measured."""
    there = [name for name in names if any(cell.get(name, []))]
    return min(there, key=lambda name: median([v for v in cell[name] if v]), default=None)


def size_text(size):
    for unit, factor in (("M", 1 << 20), ("K", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)
