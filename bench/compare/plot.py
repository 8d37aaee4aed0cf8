# SPDX-License-Identifier: Apache-2.0
"""Time over size, by matplotlib: all_reduce.png of bench/compare.sh, one panel a number of ranks;
and what rondo simulate has written by --csv, a line for each way:

  python3 bench/compare/plot.py --simulated FILE.csv PICTURE    (.png, .svg, .pdf)
"""
import argparse
import csv
import sys

from contestants import DIRECT_LOOPS, LABELS, OWN_LOOPS
from figures import fastest, median

LINES = [("rondo", "Rondo (processes)", "#c0392b", "-", 2.4),
         ("rondo_alloc", "Rondo, ncclMemAlloc", "#e67e22", "-", 1.4),
         *((name, LABELS[name], colour, style, 1.2) for name, colour, style in (
             ("openmpi", "#2c3e50", "-"), ("openmpi_ucx", "#2980b9", "-"),
             ("openmpi_debian", "#16a085", "--"), ("openmpi_sm", "#16a085", "-"),
             ("mpich", "#8e44ad", "-"), ("mpich_debian", "#8e44ad", "--"),
             ("intel_mpi", "#2c82c9", "--"), ("oneccl", "#7f8c8d", "-"),
             ("deepspeed", "#d4ac0d", "-")))]
PLANNED = "#c0392b"


def floor(points, names):
    return [(size, median(cell[fastest(cell, names)]) * 1e6) for size, cell in points
            if fastest(cell, names)]


def pyplot_without_window():
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    return pyplot


def dress(panel, title):
    panel.set(xscale="log", yscale="log", title=title, xlabel="bytes", ylabel="microseconds")
    panel.grid(True, which="major", alpha=0.3)


def draw(results, path, about=""):
    """all_reduce.png; `about` says of which run it is, and stands in the file's metadata."""
    pyplot = pyplot_without_window()
    counts = sorted({n for n, op, _ in results if op == "all_reduce"})
    if not counts:
        return
    figure, panels = pyplot.subplots(1, len(counts), figsize=(5 * len(counts), 4.4), squeeze=False)
    for panel, n in zip(panels[0], counts):
        points = [(size, cell) for (ranks, op, size), cell in sorted(results.items())
                  if ranks == n and op == "all_reduce" and cell]
        for name, label, colour, style, width in LINES:
            line = [(size, median(cell[name]) * 1e6) for size, cell in points
                    if any(cell.get(name) or [])]
            if line:
                panel.plot(*zip(*line), style, label=label, color=colour, linewidth=width)
        for names, label, style in ((OWN_LOOPS, "best copying loop", "--"),
                                    (DIRECT_LOOPS, "best direct loop", ":")):
            line = floor(points, names)
            if line:
                panel.plot(*zip(*line), style, label=label, color="#7f8c8d", linewidth=1.2)
        dress(panel, f"all-reduce, f32, {n} ranks")
    panels[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Description": about})


def ways_of(rows):
    """Points (bytes, microseconds) by algorithm, and by protocol if an algorithm has several."""
    apart = len({(row["algorithm"], row["size"]) for row in rows}) < len(rows)
    ways = {}
    for row in rows:
        name = f"{row['algorithm']} {row['protocol']}" if apart else row["algorithm"]
        ways.setdefault(name, []).append((int(row["size"]), float(row["time_us"])))
    return ways


def draw_simulated(rows, path):
    pyplot = pyplot_without_window()
    figure, panel = pyplot.subplots(figsize=(7, 4.8))
    for name, points in ways_of(rows).items():
        panel.plot(*zip(*points), "-", label=name, linewidth=1.4)
    planned = [row for row in rows if row["planned"] == "1"]
    if planned:
        sizes = [int(row["size"]) for row in planned]
        panel.plot(sizes, [float(row["time_us"]) for row in planned], "o", label="what would run",
                   color=PLANNED, markersize=4)
        panel.plot(sizes, [float(row["planner_us"]) for row in planned], ":",
                   label="the planner's time of it", color=PLANNED, linewidth=1.2)
    dress(panel, f"{rows[0]['collective']}, {rows[0]['type']}, simulated")
    panel.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def rows_of(path):
    wanted = {"collective", "type", "size", "algorithm", "protocol", "time_us", "planner_us",
              "planned"}
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"plot.py: {path} cannot be read: {error}")
    if not rows or not wanted <= rows[0].keys():
        sys.exit(f"plot.py: {path} is no file of rondo simulate --csv: it lacks rows, or a column "
                 f"of {', '.join(sorted(wanted))}")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulated", metavar="FILE.csv", required=True,
                        help="of rondo simulate --csv")
    parser.add_argument("picture", help="is written: .png, .svg or .pdf")
    asked = parser.parse_args()
    rows = rows_of(asked.simulated)
    try:
        draw_simulated(rows, asked.picture)
    except ImportError as error:
        sys.exit(f"plot.py: a picture needs matplotlib, which {sys.executable} lacks ({error}): "
                 "'.ci/install.sh --compare' installs it for /usr/bin/python3, 'pip install "
                 "matplotlib' for others")
    except (OSError, ValueError) as error:
        sys.exit(f"plot.py: {asked.picture} cannot be drawn: {error}")


if __name__ == "__main__":
    main()
