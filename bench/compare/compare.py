# SPDX-License-Identifier: Apache-2.0
"""The driver of bench/compare.sh: starts the contestants, runs them in turns, reports."""
import argparse
import json
import os
import platform
import subprocess
import sys
import time

import busy
import facts
import report
from groups import (DIRECT_LOOPS, OPTIONAL, OWN_LOOPS, PATIENCE, RIVALS, RONDO, ContestantFailed,
                    Group, NoAnswer, can_run)
from pace import Pace

FULL_SIZES = [4 << (2 * i) for i in range(13)]  # 4 B to 64 MiB
FEW_SIZES = [64, 4 << 10, 64 << 10, 1 << 20, 16 << 20]
QUICK_SIZES = [4, 16 << 10, 1 << 20]
OTHERS = ["reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter",
          "barrier"]
MOVED = 0.20  # a share; a round is dropped if the line exchange changed more than this


def parse():
    parser = argparse.ArgumentParser(prog="bench/compare.sh")
    add = parser.add_argument
    add("--quick", action="store_true", help="few sizes and rounds, a minute or two")
    add("--ranks", default="2,4,8")
    add("--operations", default=",".join(["all_reduce", *OTHERS]), help="default: all")
    add("--sizes", help="bytes, for every operation")
    add("--rounds", type=int, default=11)
    add("--budget", type=float, help="seconds for one measurement; default 0.03, --busy: 0.2")
    add("--minutes", type=float,
        help="for everything: slow rivals are cut, and rounds, until it fits; the table says what")
    add("--contestants", help="only these (and what they are compared with)")
    add("--append", action="store_true",
        help="to the results that lie in --out: a long comparison in slices")
    add("--no-facts", action="store_true", help="no groups, init and memory")
    add("--busy", action="store_true", help="beside one busy loop a core; without the facts")
    add("--build", default="build")
    add("--out", help="default: build/compare, or build/compare-busy")
    options = parser.parse_args()
    options.no_facts |= options.busy
    options.out = options.out or f"{options.build}/compare{'-busy' if options.busy else ''}"
    options.budget = options.budget or (0.2 if options.busy else 0.01 if options.quick else 0.03)
    if options.quick:
        options.ranks, options.rounds = "2,4", 3
        options.operations = "all_reduce,broadcast"
    options.ranks = [int(n) for n in options.ranks.split(",")]
    options.operations = options.operations.split(",")
    unknown = set(options.operations) - {"all_reduce", *OTHERS}
    if unknown:
        parser.error(f"unknown operation {unknown.pop()}: one of all_reduce, {', '.join(OTHERS)}")
    options.sizes = [int(s) for s in options.sizes.split(",")] if options.sizes else None
    return options


def sizes_of(options, operation):
    if operation == "barrier":
        return [4]
    if options.sizes:
        return options.sizes
    if options.quick:
        return QUICK_SIZES if operation == "all_reduce" else [16 << 10]
    return FULL_SIZES if operation == "all_reduce" else FEW_SIZES


def contestants_of(options, operation):
    names = RONDO + [name for name in RIVALS if can_run(name, operation, options.build)]
    if operation == "all_reduce":
        names = names + OWN_LOOPS + DIRECT_LOOPS
    if options.contestants:
        names = [name for name in names if name in options.contestants.split(",")]
    return names


def measure_one(groups, name, operation, size, budget, pace):
    """Seconds per call; None if the time limit cut it, or if a rival gave no answer."""
    if not pace.wants(operation, size, name):
        return None
    group = groups[name]
    group.patience = pace.patience(name, PATIENCE)
    began = time.monotonic()
    try:
        seconds = group.measure(operation, size, budget)
    except NoAnswer as hangs:
        if name not in RIVALS:
            raise
        print(f"compare: {operation} of {size} bytes: {hangs}", file=sys.stderr)
        pace.give_up(operation, size, name, time.monotonic() - began)
        group.close(hangs=True)
        groups[name] = Group(name, group.ranks, group.build)
        return None
    pace.note(operation, size, name, time.monotonic() - began, seconds)
    return seconds


def measure_round(groups, names, line, operation, size, turn, options, pace):
    """One round: every contestant once, between two measurements of the line exchange; None if
    cut."""
    budget = options.budget
    before = line.measure("all_reduce", 4, 0.002)
    names = names[turn % len(names):] + names[:turn % len(names)]
    times = {name: measure_one(groups, name, operation, size, budget, pace) for name in names}
    after = line.measure("all_reduce", 4, 0.002)
    kept = options.busy or abs(after / before - 1) <= MOVED
    return kept, times, (before + after) / 2


def measure_ranks(ranks, options, results, dropped, pace):
    line = Group("line", 2, options.build)
    everybody = {}
    try:
        for name in contestants_of(options, "all_reduce"):
            try:
                everybody[name] = Group(name, ranks, options.build)
            except ContestantFailed as failure:
                if name not in OPTIONAL:
                    raise
                print(f"compare: goes on without {failure}", file=sys.stderr)
        going = True
        while going:
            turn = pace.turns
            for operation in options.operations:
                names = [n for n in contestants_of(options, operation) if n in everybody]
                for size in sizes_of(options, operation):
                    kept, times, exchange = measure_round(everybody, names, line, operation, size,
                                                          turn, options, pace)
                    cell = results.setdefault((ranks, operation, size), {})
                    dropped[kept] = dropped.get(kept, 0) + 1
                    if not kept:
                        continue
                    for name, seconds in times.items():
                        cell.setdefault(name, []).append(seconds)
                    cell.setdefault("line", []).append(exchange)
            if sys.stderr.isatty():
                print(f"\r{ranks} ranks, round {turn + 1} of at most {options.rounds}", end="",
                      file=sys.stderr)
            going = pace.go_on()
    finally:
        for group in [line, *everybody.values()]:
            group.close()


def earlier(options):
    """Results, facts and counts of earlier rounds in --out, to which this run adds."""
    path = f"{options.out}/results.json"
    if not options.append or not os.path.exists(path):
        return {}, {}, {}, []
    with open(path, encoding="utf-8") as file:
        old = json.load(file)
    results = {}
    for row in old["results"]:
        key = (row["ranks"], row["operation"], row["bytes"])
        if row["ranks"] in options.ranks and row["operation"] in options.operations:
            continue  # measured again
        results[key] = {name: [v and v * 1e-6 for v in values]
                        for name, values in row["microseconds"].items()}
    counts = {True: old["run"]["rounds_kept"], False: old["run"]["rounds_dropped"]}
    cuts = [cut for cut in old["run"].get("cuts", []) if (cut[0], cut[1], cut[2]) in results]
    return results, old["facts"], counts, cuts


def describe_run(options):
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True,
                            text=True, check=False).stdout.strip()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [row.split(":")[1].strip() for row in file if row.startswith("model name")]
    return {"commit": commit, "date": time.strftime("%Y-%m-%d"),
            "cpu": models[0] if models else platform.machine(),
            "cores": len(os.sched_getaffinity(0)), "rounds": options.rounds,
            "budget_seconds": options.budget, "busy_loops": busy.wanted(options)}


def main():
    options = parse()
    os.makedirs(options.out, exist_ok=True)
    results, extra, dropped, cuts = earlier(options)
    failed = False
    began = time.monotonic()
    try:
        for place, ranks in enumerate(options.ranks):
            seconds = None
            if options.minutes:  # equal shares of the rest, and 0.3 of a share for the facts
                rest = options.minutes * 60 - (time.monotonic() - began)
                seconds = rest / (len(options.ranks) - place + (0.3 if not options.no_facts else 0))
            pace = Pace(seconds, options.rounds, RIVALS)
            with busy.BusyLoops(busy.wanted(options)):
                measure_ranks(ranks, options, results, dropped, pace)
            cuts += [[ranks, *key, rounds] for key, rounds in sorted(pace.cuts.items())]
        if not options.no_facts:
            extra = facts.measure(options.build, options.quick)
    except ContestantFailed as failure:
        print(f"compare: {failure}", file=sys.stderr)
        failed = True
    run = describe_run(options)
    run["rounds_kept"], run["rounds_dropped"] = dropped.get(True, 0), dropped.get(False, 0)
    run["cuts"], run["minutes"] = cuts, options.minutes
    if results:  # also if a contestant failed: the others' times are known
        report.write(run, results, extra, options.out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
