# SPDX-License-Identifier: Apache-2.0
"""The driver of bench/plan_quality.sh: measures algorithms in turns, and judges the planner's.

In every round all algorithms of a call are measured within milliseconds of each other. The figure
is the median over the rounds of the ratio to the fastest algorithm by that round's medians. A
choice is compared with the thresholds that the planner used before it had costs (THRESHOLDS).
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess

from groups import ContestantFailed, Group

OPERATIONS = ["all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter"]
SIZES = [4 << (2 * i) for i in range(13)]  # 4 B to 64 MiB
CLOSE, FAR = 1.10, 1.25
NEAR = (0.75, 1.25)  # predicted / measured
# A fixed root runs ahead of the others, so a loop of calls would measure a rate, not one call.
PREFIX = {"reduce": "in_turns ", "broadcast": "in_turns "}


def thresholds(operation, ranks, hosts, size):
    """The planner's earlier choice, by bytes of the larger buffer."""
    if hosts > 1:
        by_memory = operation in ("all_reduce", "all_gather", "reduce")
        if size >= 2 << 20 and ranks > hosts and by_memory:
            return "hierarchical"
        block = size // ranks if operation in ("all_gather", "reduce_scatter") else size
        if block > 64 << 10 or operation in ("all_gather", "reduce_scatter"):
            return "ring"
        return "recursive" if operation == "all_reduce" else "tree"
    if operation == "all_reduce":
        limit = 16 << 10 if ranks <= 8 else 8 << 10 if ranks <= 16 else 2 << 10
        return "oneshot" if size <= limit else "twoshot"
    if operation == "reduce":
        return "oneshot" if size <= (64 << 10 if ranks <= 2 else 4 << 10) else "direct"
    return "direct"


def names_of_algorithms():
    with open("base/algorithm.h", encoding="utf-8") as file:
        return re.findall(r'^  (?:FIRST|NEXT)\(k\w+, "(\w+)"\)', file.read(), re.MULTILINE)


def algorithms_of(options, operation, ranks, hosts):
    """All that run this call where nothing else may."""
    found = []
    for name in names_of_algorithms():
        explained = subprocess.run(
            [f"{options.build}/release/bin/rondo", "explain", operation, "1M", "--ranks",
             str(ranks), "--hosts", str(hosts), "--json"],
            env=dict(os.environ, NCCL_ALGO=name), capture_output=True, text=True, check=False)
        if explained.returncode == 0 and json.loads(explained.stdout).get("algorithm") == name:
            found.append(name)
    return found


class Forced(Group):
    """Ranks that are restricted to one algorithm."""

    def __init__(self, algorithm, ranks, hosts, build):
        self.algorithm, self.hosts = algorithm, hosts
        super().__init__(f"{algorithm}-{hosts}", ranks, build)
        self.ask("join")

    def command(self):
        release = os.path.abspath(f"{self.build}/release/bin")
        pretend = f"NCCL_HOSTID=quality$((RANK * {self.hosts} / {self.ranks})) "
        return ["env", f"NCCL_ALGO={self.algorithm}", "NCCL_NET=Socket", f"{release}/rondo", "run",
                "-n", str(self.ranks), "--no-prefix", "--", "sh", "-c",
                f"{pretend if self.hosts > 1 else ''}exec {release}/rondo_contestant {self.folder}"]


def choice_of(options, operation, ranks, hosts, size):
    """The planner's, if pretended hosts share this machine's cores."""
    cores = len(os.sched_getaffinity(0))
    if hosts > 1:
        cores = max(cores // hosts, 1)
    environment = dict(os.environ, RONDO_TUNE_FILE=options.tune or "")
    output = subprocess.run(
        [f"{options.build}/release/bin/rondo", "explain", operation, str(size), "--ranks",
         str(ranks), "--hosts", str(hosts), "--cores", str(cores)],
        env=environment, capture_output=True, text=True, check=True).stdout
    words = {line[:12].strip(): line[13:].split(";")[0].strip() for line in output.splitlines()}
    return words["algorithm"], words["predicted"]


def compare(options, operation, ranks, hosts, groups):
    rows = []
    for size in options.sizes:
        if operation in ("all_gather", "reduce_scatter") and size < 4 * ranks:
            continue
        times = {algorithm: [] for algorithm in groups}
        for _ in range(options.rounds):
            for algorithm, group in groups.items():
                times[algorithm].append(group.measure(
                    operation, size, options.budget, prefix=PREFIX.get(operation, "")))
        fastest = min(times, key=lambda a: statistics.median(times[a]))
        ratio = {a: statistics.median(t / min(times[b][i] for b in times)
                                      for i, t in enumerate(times[a])) for a in times}
        best = min(ratio.values())
        chosen, predicted = choice_of(options, operation, ranks, hosts, size)
        before = thresholds(operation, ranks, hosts, size)
        rows.append({"operation": operation, "ranks": ranks, "hosts": hosts, "size": size,
                     "fastest": fastest, "us": statistics.median(times[fastest]) * 1e6,
                     "chosen": chosen, "chosen_us": statistics.median(times[chosen]) * 1e6,
                     "predicted": predicted, "ratio": ratio[chosen] / best,
                     "before": before, "before_ratio": ratio[before] / best,
                     "all_us": {a: statistics.median(t) * 1e6 for a, t in times.items()}})
        print(line_of(rows[-1]), flush=True)
    return rows


def micros(text):
    """Parses times of rondo explain, such as '12.3 us'."""
    number, unit = text.split()[:2]
    return float(number) * {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}[unit]


def predictions_of(rows):
    """Times of the choices, predicted against measured, for this placement of ranks."""
    lines = []
    for ranks, hosts in sorted({(row["ranks"], row["hosts"]) for row in rows}):
        of_call = [micros(row["predicted"]) / row["chosen_us"] for row in rows
                   if (row["ranks"], row["hosts"]) == (ranks, hosts)]
        near = sum(NEAR[0] <= ratio <= NEAR[1] for ratio in of_call)
        lines.append(f"{ranks} ranks, {hosts} hosts: predicted/measured {min(of_call):.2f} to "
                     f"{max(of_call):.2f}, median {statistics.median(of_call):.2f}; {near} of "
                     f"{len(of_call)} within {NEAR[0]} to {NEAR[1]}")
    return lines


def line_of(row):
    return (f"{row['operation']:<14} {row['ranks']:>2}x{row['hosts']} {row['size']:>9} "
            f"{row['fastest']:<13} {row['us']:>10.2f} "
            f"{row['chosen']:<13} {row['chosen_us']:>10.2f} {row['predicted']:>10} "
            f"{row['ratio']:>6.2f} {row['before']:<13} {row['before_ratio']:>6.2f}")


HEAD = (f"{'operation':<14} {'on':>4} {'bytes':>9} {'fastest':<13} {'us':>10} {'chosen':<13} "
        f"{'us':>10} {'predicted':>10} {'ratio':>6} {'before':<13} {'ratio':>6}")


def summary_of(rows):
    def mean(which):
        return math.exp(statistics.fmean(math.log(row[which]) for row in rows))

    def close(which, limit):
        return sum(row[which] <= limit for row in rows)

    lines = []
    for what, which in (("by costs", "ratio"), ("by the thresholds before", "before_ratio")):
        lines.append(f"{what}: {close(which, CLOSE)} of {len(rows)} choices within {CLOSE} of the "
                     f"fastest, {len(rows) - close(which, FAR)} beyond {FAR}; {mean(which):.3f} "
                     "times its time in the mean")
    return lines


def main():
    parser = argparse.ArgumentParser(prog="bench/plan_quality.sh")
    add = parser.add_argument
    add("--ranks", default="2x1,4x1,8x1,2x2,4x2")
    add("--operations", default=",".join(OPERATIONS))
    add("--sizes", default=",".join(map(str, SIZES)))
    add("--rounds", type=int, default=5)
    add("--budget", type=float, default=0.02, help="seconds for one measurement")
    add("--tune", help="a file of rondo tune; without: priors")
    add("--build", default="build")
    add("--out", default="build/plan_quality")
    options = parser.parse_args()
    options.sizes = [int(size) for size in options.sizes.split(",")]
    rows = []
    print(HEAD)
    for layout in options.ranks.split(","):
        ranks, hosts = (int(word) for word in layout.split("x"))
        for operation in options.operations.split(","):
            names = algorithms_of(options, operation, ranks, hosts)
            names = [n for n in names if n != "hierarchical" or ranks > hosts]
            groups = {}
            try:
                for algorithm in names:
                    groups[algorithm] = Forced(algorithm, ranks, hosts, options.build)
                rows += compare(options, operation, ranks, hosts, groups)
            except ContestantFailed as failure:
                print(f"# {operation} {layout}: {failure}")
            finally:
                for group in groups.values():
                    group.close()
    lines = summary_of(rows) + predictions_of(rows) if rows else ["nothing was measured"]
    print("\n".join(lines))
    os.makedirs(options.out, exist_ok=True)
    with open(f"{options.out}/plan_quality.txt", "w", encoding="utf-8") as file:
        file.write("\n".join([HEAD, *map(line_of, rows), "", *lines]) + "\n")
    with open(f"{options.out}/plan_quality.json", "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
