#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Publishes one run of bench/compare.sh: its all-reduces become bench/results/host/all_reduce.json
and all_reduce.png, and the figures between the marks of README.md and docs/start/bench.md.

  python3 bench/compare/publish.py build/compare     after bench/compare.sh
  python3 bench/compare/publish.py --check           the pages and the picture equal the stored run

The README's rows and the picture are of the condition "real" if the run has it; the page's table
has a row for each condition and each bin of the cores' distance (conditions.py).
The README's rows of other programs are read from their results: net.txt and gloo.json beside it.
"""
import argparse
import json
import re
import sys
from pathlib import Path

import plot
from conditions import views
from contestants import LABELS
from figures import fastest, geometric_mean, size_text
from report import microseconds, results_in, shown_in_pages

TOP = Path(__file__).resolve().parents[2]
STORED = TOP / "bench/results/host"
RUN, PICTURE = STORED / "all_reduce.json", STORED / "all_reduce.png"
PAGES = [TOP / "README.md", TOP / "docs/start/bench.md"]
BLOCK = re.compile(r"(<!-- figures of bench/compare/publish.py: (\w+) -->\n).*?(<!-- end -->)",
                   re.DOTALL)
NUMBERS = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
README_ROWS = [(2, 65536), (2, 1 << 20), (4, 4096), (4, 1 << 20), (8, 1 << 20)]
STATES = {"row": "idle", "single": "idle, one call at a time", "busy": "beside a busy loop a core",
          "real": "beside a busy loop a core, ranks late, caches cold"}


class Run:
    """The all-reduces of one stored run: microseconds by ranks, bytes and contestant."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            stored = json.load(file)
        self.about, self.facts = stored["run"], stored["facts"]
        self.about["cuts"] = [cut for cut in self.about.get("cuts", []) if cut[1] == "all_reduce"]
        self.rows = [row for row in stored["results"] if row["operation"] == "all_reduce"]
        if not self.rows:
            sys.exit(f"publish.py: {path} has no all-reduce")
        results = results_in({"results": self.rows})
        self.views = list(views(results))
        self.shown = shown_in_pages(results)
        self.rivals = [name for name in LABELS if any(
            any(cell.get(name) or []) for _, _, part in self.views for cell in part.values())]

    def heading(self):
        return f"commit {self.about['commit']}, {self.about['date']}, {self.cores()}"

    def cores(self):
        cpu = re.sub(r"\(R\)| Processor$", "", self.about["cpu"])
        return f"{self.about['cores']} cores of {cpu}"

    def cell(self, part, ranks, size):
        """Rondo's time and the fastest other's, with its name; dashes where one was cut."""
        cell = part.get((ranks, "all_reduce", size), {})
        best = fastest(cell, self.rivals)
        return microseconds(cell.get("rondo")), microseconds(cell.get(best)), LABELS.get(best, "-")

    def names(self):
        versions = self.about.get("versions", {})
        labels = [f"{LABELS[name]} {versions.get(name, '')}".strip() for name in self.rivals]
        return f"{NUMBERS[len(labels)]} ({', '.join(labels)})"

    def state(self):
        """What holds for the README's rows."""
        condition, name, _ = self.shown
        return STATES[condition] + (", cores far apart" if name == "far" else "")


def between_hosts(size):
    """Rondo, Open MPI, gloo of the first table of net.txt."""
    row = re.search(rf"^ +{size} +([\d.]+) +([\d.]+) +([\d.]+) ",
                    (STORED / "net.txt").read_text(encoding="utf-8"), re.MULTILINE)
    return [f"{float(value):.0f}" for value in row.groups()]


def beside_gloo(ranks):
    with open(STORED / "gloo.json", encoding="utf-8") as file:
        rows = json.load(file)[str(ranks)]
    return geometric_mean([times["gloo"] / times["rondo"] for _, _, times in rows])


def readme(run):
    condition, _, part = run.shown
    lines = [f"{run.cores()}, {run.state()}, {run.about['date']} (the last two rows: "
             f"earlier{'' if condition == 'row' else ', idle'}), float32, medians in microseconds; "
             f"others: the fastest of {run.names()}.", "",
             "| | Rondo | others | command |", "|---|---|---|---|"]
    rows = [row for row in README_ROWS if (row[0], "all_reduce", row[1]) in part]
    if any(ranks == 8 for ranks, _ in rows):
        rows.remove((2, 1 << 20))
    option = "" if condition == "row" else f" --{condition}"
    for ranks, size in rows:
        ours, other, name = run.cell(part, ranks, size)
        unit = size_text(size).replace("K", " KiB").replace("M", " MiB")
        lines.append(f"| all-reduce, {ranks} processes, {unit} | {ours} | {name} {other} "
                     f"| `bash bench/compare.sh{option}` |")
    ours, openmpi, gloo = between_hosts(1 << 20)
    lines.append(f"| all-reduce, 2 hosts over TCP, 1 MiB | {ours} "
                 f"| Open MPI {openmpi}, gloo {gloo} | `bash bench/net_compare.sh` |")
    lines.append("| PyTorch, five collectives, 2 ranks, mean "
                 f"| {beside_gloo(2):.1f} times as fast | gloo | `bench/torch_compare.py` |")
    return lines


def table(run):
    sizes = sorted({size for _, _, part in run.views for _, _, size in part})
    names = [re.sub(r"(\d)([KM]?)$", lambda m: m[1] + {"": " B", "K": " KiB", "M": " MiB"}[m[2]],
                    size_text(size)) for size in sizes]
    only_rows = {condition for condition, _, _ in run.views} == {"row"} and len(run.views) == 1
    head = "| ranks | |" if only_rows else "| ranks | condition | |"
    lines = [f"Of one run: {run.heading()}; others: {run.names()}.", "",
             f"{head} {' | '.join(names)} |", "|---" * (len(sizes) + head.count("|") - 1) + "|"]
    for ranks in sorted({key[0] for _, _, part in run.views for key in part}):
        for condition, name, part in run.views:
            cells = [run.cell(part, ranks, size) for size in sizes]
            if all(ours == "-" for ours, _, _ in cells):
                continue
            first = f"| {ranks} |"
            first += "" if only_rows else f" {condition} {name}".rstrip() + " |"
            lines.append(f"{first} Rondo | {' | '.join(ours for ours, _, _ in cells)} |")
            lines.append(f"{first} fastest other | {' | '.join(other for _, other, _ in cells)} |")
    return lines


def filled(text, run):
    """The page with its blocks made from the run; lines of prose are cut at 100 columns."""
    makers = {"readme": readme, "table": table}

    def fill(match):
        lines = []
        for line in makers[match[2]](run):
            while len(line) > 100 and not line.startswith("|"):
                cut = line.rindex(" ", 0, 101)
                lines.append(line[:cut])
                line = line[cut + 1:]
            lines.append(line)
        return match[1] + "\n".join(lines) + "\n" + match[3]

    return BLOCK.sub(fill, text)


def publish(folder):
    run = Run(Path(folder) / "results.json")
    with open(RUN, "w", encoding="utf-8") as file:
        json.dump({"run": run.about, "facts": run.facts, "results": run.rows}, file)
    plot.draw(run.shown[2], PICTURE, run.heading())
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8"), run), encoding="utf-8")


def findings():
    """What differs from the stored run, one text for each file."""
    run = Run(RUN)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if not BLOCK.search(text) or filled(text, run) != text:
            yield f"{page.relative_to(TOP)}:1: its figures are not those of {RUN.relative_to(TOP)}"
    if run.heading().encode() not in PICTURE.read_bytes():
        yield f"{PICTURE.relative_to(TOP)}:1: not drawn from {RUN.relative_to(TOP)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="of bench/compare.sh's results.json")
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if a file differs")
    asked = parser.parse_args()
    if bool(asked.folder) == asked.check:
        parser.error("either a folder or --check")
    if asked.folder:
        publish(asked.folder)
    differs = list(findings())
    for text in differs:
        print(f"{text}; python3 bench/compare/publish.py FOLDER makes it")
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
