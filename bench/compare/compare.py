# SPDX-License-Identifier: Apache-2.0
"""The driver of bench/compare.sh: starts the contestants, runs them in turns, reports."""
import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time

import conditions
import facts
import report
from contestants import RIVALS
from groups import ContestantFailed
from pace import Pace
from rounds import Rounds, not_installed

FULL_SIZES = [4 << (2 * i) for i in range(13)]  # 4 B to 64 MiB
FEW_SIZES = [64, 4 << 10, 64 << 10, 1 << 20, 16 << 20]
REAL_SIZES = [64, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 16 << 20]
QUICK_SIZES = [4, 16 << 10, 1 << 20]
OTHERS = ["reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter",
          "barrier"]


def parse(words=None):
    parser = argparse.ArgumentParser(prog="bench/compare.sh")
    add = parser.add_argument
    add("--quick", action="store_true", help="few sizes and rounds, a minute or two")
    add("--condition", dest="conditions", metavar="NAMES", default="row",
        help=f"of {', '.join(conditions.NAMES)}, several by commas: conditions.py; default: row")
    add("--real", action="store_true", help="--condition real")
    add("--busy", action="store_true", help="--condition busy")
    add("--ranks", help="default: 2,4,8; with --quick or real: 2,4")
    add("--operations", help="default: all; --quick: all_reduce,broadcast")
    add("--sizes", help="bytes, for every operation")
    add("--rounds", type=int, help="default: 11; --quick: 3")
    add("--budget", type=float,
        help="seconds for one measurement; default 0.03, beside busy loops 0.2")
    add("--minutes", type=float,
        help="for everything: slow rivals are cut, and rounds, until it fits; the table says what")
    add("--contestants", help="only these (and what they are compared with)")
    add("--append", action="store_true",
        help="to the results that lie in --out: a long comparison in slices")
    add("--no-facts", action="store_true", help="no groups, init and memory")
    add("--build", default="build")
    add("--out", help="default: build/compare, or build/compare-busy, build/compare-real")
    options = parser.parse_args(words)
    if options.real or options.busy:
        options.conditions = "real" if options.real else "busy"
    options.conditions = options.conditions.split(",")
    unknown = set(options.conditions) - set(conditions.NAMES)
    if unknown:
        parser.error(f"unknown condition {unknown.pop()}: one of {', '.join(conditions.NAMES)}")
    alone = options.conditions[0] if len(options.conditions) == 1 else ""
    options.no_facts |= "row" not in options.conditions
    options.out = options.out or (f"{options.build}/compare"
                                  f"{'-' + alone if alone in conditions.BESIDE_LOOPS else ''}")
    few = options.quick or "real" in options.conditions
    options.ranks = [int(n) for n in (options.ranks or ("2,4" if few else "2,4,8")).split(",")]
    options.rounds = options.rounds or (3 if options.quick else 11)
    options.budget = options.budget or (0.01 if options.quick else None)
    options.operations = options.operations or (
        "all_reduce,broadcast" if options.quick else ",".join(["all_reduce", *OTHERS]))
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
    if "real" in options.conditions:
        return REAL_SIZES
    return FULL_SIZES if operation == "all_reduce" else FEW_SIZES


def earlier(options):
    """What an earlier run left in --out, to which this run adds: results by condition, facts, and
    its "run". Cells that are measured again are left out."""
    path = f"{options.out}/results.json"
    if not options.append or not os.path.exists(path):
        return {}, {}, {}
    with open(path, encoding="utf-8") as file:
        old = json.load(file)
    results = report.results_in(old)
    for condition in options.conditions:
        for key in list(results.get(condition, {})):
            if key[0] in options.ranks and key[1] in options.operations:
                del results[condition][key]
    run = old["run"]
    run["cuts"] = [cut for cut in run.get("cuts", []) if
                   tuple(cut[:3]) in results.get(report.condition_of(cut), {})]
    return results, old["facts"], run


def describe_run(options):
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True,
                            text=True, check=False).stdout.strip()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [row.split(":")[1].strip() for row in file if row.startswith("model name")]
    return {"commit": commit, "date": time.strftime("%Y-%m-%d"),
            "cpu": models[0] if models else platform.machine(),
            "cores": len(os.sched_getaffinity(0)), "rounds": options.rounds,
            "minutes": options.minutes, "conditions": options.conditions}


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the groups' folders are in memory
    os.makedirs(options.out, exist_ok=True)
    results, extra, before = earlier(options)
    counts, cuts = dict(before.get("rounds_of", {})), before.get("cuts", [])
    about = {"versions": before.get("versions", {}), "missing": not_installed(options)}
    failed = False
    began = time.monotonic()
    try:
        for place, ranks in enumerate(options.ranks):
            seconds = None
            if options.minutes:  # equal shares of the rest, and 0.3 of a share for the facts
                rest = options.minutes * 60 - (time.monotonic() - began)
                seconds = rest / (len(options.ranks) - place + (0.3 if not options.no_facts else 0))
            pace = Pace(seconds, options.rounds, RIVALS)
            with Rounds(ranks, options, pace, results, counts, about) as rounds:
                rounds.run(sizes_of)
            cuts += [[ranks, operation, size, name, times, condition]
                     for ((condition, operation), size, name), times in sorted(pace.cuts.items())]
        if not options.no_facts:
            extra = facts.measure(options.build, options.quick)
    except ContestantFailed as failure:
        print(f"compare: {failure}", file=sys.stderr)
        failed = True
    run = {**describe_run(options), **about, "rounds_of": counts, "cuts": cuts}
    if any(results.values()):  # also if a contestant failed: the others' times are known
        report.write(run, results, extra, options.out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
