#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Flaky tests: they failed, then passed three times alone. build/flaky.txt keeps them.

  tests/flaky.py SINCE    prints those since a time (seconds, `date +%s`), and what to mend first

A row of the file: time, commit, how to repeat it (the seed that the failure printed, or -), name.
Rows are appended, so a test that is in it twice was flaky in two runs: it is mended before anything
else. What passes now may still be a bug of the product: look at it as at any failure.

  if flaky.passes_again(run): flaky.keep(name, output)     run() says whether the test passes
"""
import collections
import datetime
import os
import re
import subprocess
import sys

KEPT = "build/flaky.txt"
TIMES = 3
# More failures are not luck, and would take long: none runs again.
TOO_MANY = 10
# A report of a sanitizer is right even if the next run has none.
NEVER_LUCK = re.compile(r"(Address|Thread|Leak|UndefinedBehavior)Sanitizer|: runtime error: ")
SEEDS = re.compile(r"RONDO_(?:TEST|SIMT)_SEED=\d+")


def passes_again(run):
    """Stops at the first failure."""
    return all(run() for _ in range(TIMES))


def may_be(failures):
    """Whether each of these outputs of failed tests may be a flaky test's; else none runs again."""
    return len(failures) <= TOO_MANY and not any(map(NEVER_LUCK.search, failures))


def seeds_of(output):
    return " ".join(sorted(set(SEEDS.findall(output)))) or "-"


def keep(name, output, path=KEPT):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                            check=False).stdout.strip() or "-"
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    with open(path, "a", encoding="utf-8") as file:
        print(now, commit, seeds_of(output), name, sep="\t", file=file)


def rows(path=KEPT):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def lines_since(since, path=KEPT):
    """The lines for the flaky tests since a time: none if there were none."""
    kept = rows(path)
    often = collections.Counter(name for *_, name in kept)
    begun = datetime.datetime.fromtimestamp(int(since), datetime.timezone.utc).isoformat()
    names, lines = set(), []
    for when, _, seeds, name in kept:
        if when >= begun:
            names.add(name)
            lines.append(f"flaky: {name}" + ("" if seeds == "-" else f" ({seeds})"))
    lines += [f"mend first, flaky {often[name]} times ({path}): {name}"
              for name in sorted(names) if often[name] > 1]
    return [*lines, f"{len(names)} flaky"] if lines else []


if __name__ == "__main__":
    for text in lines_since(sys.argv[1]):
        print(text)
