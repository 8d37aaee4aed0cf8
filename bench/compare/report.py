# SPDX-License-Identifier: Apache-2.0
"""Tables on standard output and in results.txt; results.json and results.csv; all_reduce.png."""
import csv
import json

import plot
import targets
from figures import fastest, interval, median, paired, size_text
from groups import DIRECT_LOOPS, OWN_LOOPS, RIVALS


def microseconds(values):
    values = [value for value in values or [] if value]  # None: cut from that round
    if not values:
        return "-"
    value = median(values) * 1e6
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def ratio(cell, first, second):
    if not cell.get(first) or not cell.get(second):
        return "-"
    both = paired(cell, first, second)
    return f"{median(both):.2f}" if both else "-"


def columns(cell):
    best = fastest(cell, RIVALS)
    loop, direct = fastest(cell, OWN_LOOPS), fastest(cell, DIRECT_LOOPS)
    spread = "-"
    if best and cell.get("rondo"):
        low, high = interval(paired(cell, "rondo", best))
        spread = f"{low:.2f}..{high:.2f}"
    row = [microseconds(cell.get(name)) for name in ("rondo", *RIVALS)]
    row += [ratio(cell, "rondo", best), spread, best or "-"]
    row += [microseconds(cell.get(loop)), ratio(cell, "rondo", loop)]
    row += [microseconds(cell.get(name)) for name in ("rondo_threads", "rondo_alloc", direct)]
    return row + [ratio(cell, "rondo_threads", direct), ratio(cell, "rondo_alloc", direct)]


HEADS = ["bytes", "rondo", "ompi", "ompi-ucx", "ompi-sm", "mpich", "impi", "oneccl", "deepspeed",
         "of best", "95%", "best", "loop", "/loop", "threads", "alloc", "direct", "thr/dir",
         "all/dir"]


def tables(results):
    lines = []
    for ranks, operation in sorted({key[:2] for key in results}):
        lines.append(f"\n{operation}, {ranks} ranks (microseconds; ratios of one round, median)")
        rows = [HEADS]
        for (n, op, size), cell in sorted(results.items()):
            if (n, op) == (ranks, operation):
                rows.append([size_text(size), *columns(cell)])
        measured = [i for i in range(len(HEADS)) if any(row[i] != "-" for row in rows[1:])]
        rows = [[row[i] for i in measured] for row in rows]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines += ["  ".join(text.rjust(width) for text, width in zip(row, widths)) for row in rows]
    return lines


def cut_lines(run, results):
    """What a time limit left out, one line per contestant and operation."""
    lines = {}
    for ranks, operation, size, name, rounds in run.get("cuts", []):
        lines.setdefault((ranks, operation, name), {})[size] = rounds
    if not lines:
        return []
    limit = f" within {run['minutes']:g} minutes" if run.get("minutes") else ""
    cuts = [f"\ncut, to end{limit}: measured in fewer rounds than the rest, or never"]
    for (ranks, operation, name), cut in sorted(lines.items()):
        spans = []  # first size, last size, rounds
        for size in sorted(size for n, op, size in results if (n, op) == (ranks, operation)):
            rounds = cut.get(size)
            if spans and spans[-1][2] == rounds:
                spans[-1][1] = size
            else:
                spans.append([size, size, rounds])
        what = [f"{size_text(first)}{'' if first == last else ' to ' + size_text(last)} "
                + ("never" if rounds == 0 else f"{rounds} round{'' if rounds == 1 else 's'}")
                for first, last, rounds in spans if rounds is not None]
        cuts.append(f"{operation}, {ranks} ranks, {name}: {', '.join(what)}")
    return cuts


def verdicts(results, extra):
    rows = targets.all_targets(results, extra)
    width = max(len(target) for target, _ in rows)
    return ["\ntargets"] + [f"{target.ljust(width)}  {verdict}" for target, verdict in rows]


def heading(run):
    beside = f", beside {run['busy_loops']} busy loops" if run.get("busy_loops") else ""
    return [f"Rondo {run['commit']}, {run['date']}, {run['cores']} cores of {run['cpu']}, "
            f"{run['rounds']} rounds{beside}",
            f"rounds (one size, every contestant once): {run['rounds_kept']} kept, "
            f"{run['rounds_dropped']} dropped because the cache-line exchange moved over 20 %"]


def write_csv(results, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["ranks", "operation", "bytes", "contestant", "median_us", "rounds"])
        for (ranks, operation, size), cell in sorted(results.items()):
            for name, values in sorted(cell.items()):
                values = [value for value in values if value]
                if values:
                    writer.writerow([ranks, operation, size, name, f"{median(values) * 1e6:.4g}",
                                     len(values)])


def write_json(run, results, extra, path):
    rows = [{"ranks": n, "operation": op, "bytes": size,
             "microseconds": {name: [v and float(f"{v * 1e6:.4g}") for v in values]
                              for name, values in sorted(cell.items())}}
            for (n, op, size), cell in sorted(results.items())]
    verdict_rows = [{"target": t, "verdict": v} for t, v in targets.all_targets(results, extra)]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"run": run, "facts": extra, "targets": verdict_rows, "results": rows}, file)


def write(run, results, extra, out):
    lines = heading(run) + tables(results) + cut_lines(run, results) + verdicts(results, extra)
    text = "\n".join(lines) + "\n"
    print(text, end="")
    with open(f"{out}/results.txt", "w", encoding="utf-8") as file:
        file.write(text)
    write_csv(results, f"{out}/results.csv")
    write_json(run, results, extra, f"{out}/results.json")
    plot.draw(results, f"{out}/all_reduce.png", heading(run)[0])
    print(f"\nwritten: {out}/results.txt, results.csv, results.json, all_reduce.png")
