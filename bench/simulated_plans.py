# SPDX-License-Identifier: Apache-2.0
"""How far the planner's choices on GPUs are from the fastest that the simulator finds.

  python3 bench/simulated_plans.py --program build/release/bin/rondo --topo dgx-h100,dgx-a100
      [--hosts 1,2,4,8,16,32] [--collectives all_reduce,broadcast] [-b 1K] [-e 4G]

Prints a table in Markdown: for each machine and number of hosts, and each collective, the largest
time of a chosen algorithm divided by that of the fastest one, over all sizes, and the size where it
is. NVLS is left out, which runs only on request. A dash: the choice of some sizes is not simulated.
"""
import argparse
import json
import subprocess
import sys

COLLECTIVES = "all_reduce,all_gather,reduce_scatter,broadcast,reduce"


def rows_of(options, topo, hosts, collective):
    """The simulator's rows of one table, or None where it has none for this machine."""
    command = [options.program, "simulate", collective, "--topo", topo, "--hosts", str(hosts),
               "-b", options.b, "-e", options.e, "-f", "4", "--algo", "all", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{topo}, {hosts} hosts, {collective}: {done.stderr.strip()}", file=sys.stderr)
        return None
    return [row for row in json.loads(done.stdout)["results"] if row["algorithm"] != "nvls"]


def size_text(size):
    for unit in ("", " KiB", " MiB", " GiB"):
        if size < 1024:
            return f"{size}{unit}"
        size //= 1024
    return f"{size} TiB"


def worst_of(rows):
    """The largest ratio and its size, as text."""
    worst, where = 0.0, 0
    for size in sorted({row["size_bytes"] for row in rows}):
        times = [row for row in rows if row["size_bytes"] == size]
        chosen = [row["time_us"] for row in times if row["planned"]]
        if not chosen:
            return "-"
        ratio = chosen[0] / min(row["time_us"] for row in times)
        if ratio > worst:
            worst, where = ratio, size
    return f"{worst:.2f}" + (f" at {size_text(where)}" if worst >= 1.005 else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/rondo")
    parser.add_argument("--topo", default="dgx-a100,dgx-h100,dgx-b200")
    parser.add_argument("--hosts", default="1,2,4,8,16,32")
    parser.add_argument("--collectives", default=COLLECTIVES)
    parser.add_argument("-b", default="1K", help="first size")
    parser.add_argument("-e", default="4G", help="last size")
    options = parser.parse_args()
    collectives = options.collectives.split(",")
    print("| machine | hosts | " + " | ".join(collectives) + " |")
    print("|---|---|" + "---|" * len(collectives))
    for topo in options.topo.split(","):
        for hosts in map(int, options.hosts.split(",")):
            cells = []
            for collective in collectives:
                rows = rows_of(options, topo, hosts, collective)
                cells.append(worst_of(rows) if rows else "-")
            print(f"| {topo} | {hosts} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
