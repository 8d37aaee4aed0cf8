#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measured times of ranks in host memory, compared with rondo simulate and the planner.

  python3 bench/simulated_hosts.py [--program build/release/bin/rondo] [--all]

Reads a stored run of bench/compare.sh (bench/results/host/results.json: Rondo's processes and
threads) and prints the table of docs/plan/simulate.md; --all prints every call. This measures
nothing. Both sides depend on this machine's caches, so run it on a machine like that of the stored
run.
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import tempfile

STORED = os.path.join(os.path.dirname(__file__), "results", "host", "results.json")
MAX_BYTES = 16 << 20
NEAR = 1.25
NAMES = {"all_to_all": "alltoall"}


def predicted(program, operation, ranks, cores, threads):
    """(simulated, planner's closed form) of the chosen algorithm, in microseconds, by bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "simulated.csv")
        subprocess.run(
            [program, "simulate", NAMES.get(operation, operation), "--ranks", str(ranks),
             "--cores", str(cores), "-b", "4", "-e", str(MAX_BYTES), "-f", "4", "--csv", path]
            + (["--threads"] if threads else []), check=True, stdout=subprocess.DEVNULL)
        with open(path, encoding="utf-8") as file:
            return {int(row["size"]): (float(row["time_us"]), float(row["planner_us"]))
                    for row in csv.DictReader(file)}


def measured(stored):
    """Medians in microseconds, by (operation, ranks, threads), then by bytes."""
    calls = {}
    for result in stored["results"]:
        if result.get("condition", "row") != "row":
            continue
        for name, threads in (("rondo", False), ("rondo_threads", True)):
            times = [time for time in result["microseconds"].get(name) or [] if time]
            if times and result["operation"] != "barrier" and result["bytes"] <= MAX_BYTES:
                key = result["operation"], result["ranks"], threads
                calls.setdefault(key, {})[result["bytes"]] = statistics.median(times)
    return calls


def summary(ratios):
    near = sum(1 / NEAR <= ratio <= NEAR for ratio in ratios)
    return f"{statistics.median(ratios):.2f} | {near} of {len(ratios)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/rondo")
    parser.add_argument("--all", action="store_true", help="every call")
    asked = parser.parse_args()
    with open(STORED, encoding="utf-8") as file:
        stored = json.load(file)
    ratios = {}
    for (operation, ranks, threads), times in sorted(measured(stored).items()):
        sides = predicted(asked.program, operation, ranks, stored["run"]["cores"], threads)
        for size, us in sorted(times.items()):
            if size not in sides:
                continue
            simulated_us, planner = sides[size]
            ratios.setdefault((threads, ranks), []).append((simulated_us / us, planner / us))
            if asked.all:
                print(f"{operation:<15} {ranks} {'threads' if threads else 'processes':<9} "
                      f"{size:>9} measured {us:>9.2f} simulated {simulated_us:>9.2f} "
                      f"{simulated_us / us:>5.2f} "
                      f"planner {planner:>9.2f} {planner / us:>5.2f}")
    print(f"| ranks | simulated / measured, median | within {NEAR} | planner / measured, median "
          f"| within {NEAR} |\n|---|---|---|---|---|")
    for (threads, ranks), both in sorted(ratios.items()):
        simulated_us, planner = zip(*both)
        print(f"| {ranks} {'threads' if threads else 'processes'} | {summary(simulated_us)} "
              f"| {summary(planner)} |")


if __name__ == "__main__":
    main()
