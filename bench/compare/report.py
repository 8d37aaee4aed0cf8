# SPDX-License-Identifier: Apache-2.0
"""Tables on standard output and in results.txt; results.json and results.csv; all_reduce.png."""
import csv
import json

import plot
import targets
from conditions import BINS, TITLES, rounds_of, views
from contestants import DIRECT_LOOPS, HEADS, LABELS, OWN_LOOPS, RIVALS
from figures import fastest, interval, median, paired, size_text


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
    if best and any(cell.get("rondo") or []):
        low, high = interval(paired(cell, "rondo", best))
        spread = f"{low:.2f}..{high:.2f}"
    row = [microseconds(cell.get(name)) for name in ("rondo", *RIVALS)]
    row += [ratio(cell, "rondo", best), spread, HEADS.get(best, "-")]
    row += [microseconds(cell.get(loop)), ratio(cell, "rondo", loop)]
    row += [microseconds(cell.get(name)) for name in ("rondo_threads", "rondo_alloc", direct)]
    row += [ratio(cell, "rondo_threads", direct), ratio(cell, "rondo_alloc", direct)]
    return row + [str(rounds_of(cell))]


COLUMNS = ["bytes", "rondo", *(HEADS[name] for name in RIVALS), "of best", "95%", "best", "loop",
           "/loop", "threads", "alloc", "direct", "thr/dir", "all/dir", "rounds"]


def in_columns(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(text.rjust(width) for text, width in zip(row, widths)) for row in rows]


def tables(results, about):
    """A table for each operation and number of ranks. `about`: the condition and bin."""
    lines = []
    for ranks, operation in sorted({key[:2] for key in results}):
        lines.append(f"\n{operation}, {ranks} ranks, {about} (microseconds; ratios of one round, "
                     "median)")
        rows = [COLUMNS]
        for (n, op, size), cell in sorted(results.items()):
            if (n, op) == (ranks, operation) and cell:
                rows.append([size_text(size), *columns(cell)])
        measured = [i for i in range(len(COLUMNS)) if any(row[i] != "-" for row in rows[1:])]
        lines += in_columns([[row[i] for i in measured] for row in rows])
    return lines


def short(cell):
    """Rondo's time / the fastest other's, its name, and the median of their ratios."""
    best = fastest(cell or {}, RIVALS)
    if not best or not any(cell.get("rondo") or []):
        return "-"
    return (f"{microseconds(cell['rondo'])} / {microseconds(cell[best])} {HEADS[best]} "
            f"({ratio(cell, 'rondo', best)})")


def side_by_side(results):
    """All conditions and bins in one table: a row for each size, a column for each of them."""
    seen = [(f"{condition} {name}".strip(), part) for condition, name, part in views(results)]
    if len(seen) < 2:
        return []
    lines = []
    keys = sorted({key for _, part in seen for key in part})
    for ranks, operation in sorted({key[:2] for key in keys}):
        lines.append(f"\n{operation}, {ranks} ranks: Rondo / the fastest other (ratio)")
        rows = [["bytes", *(title for title, _ in seen)]]
        for key in keys:
            if key[:2] == (ranks, operation):
                rows.append([size_text(key[2]), *(short(part.get(key)) for _, part in seen)])
        lines += in_columns(rows)
    return lines


def about_view(condition, name):
    return TITLES[condition] + (f"; {BINS[name]}" if name else "")


def condition_of(cut):
    """Of an entry of run["cuts"]; those of older runs do not name it."""
    return cut[5] if len(cut) > 5 else "row"


def results_in(stored):
    """By condition, then (ranks, operation, bytes), in seconds; from results.json's contents."""
    results = {}
    for row in stored["results"]:
        key = (row["ranks"], row["operation"], row["bytes"])
        results.setdefault(row.get("condition", "row"), {})[key] = {
            name: [v and v * 1e-6 for v in values] for name, values in row["microseconds"].items()}
    return results


def cut_lines(run, results):
    """What a time limit left out, a line per operation; contestants that lost the same share it."""
    lines = {}
    for cut in run.get("cuts", []):
        ranks, operation, size, name, rounds = cut[:5]
        lines.setdefault((condition_of(cut), ranks, operation, name), {})[size] = rounds
    if not lines:
        return []
    limit = f" within {run['minutes']:g} minutes" if run.get("minutes") else ""
    cuts = [f"\ncut, to end{limit}: measured in fewer rounds than the rest, or never"]
    names = {}  # of contestants that were cut alike
    for (condition, ranks, operation, name), cut in sorted(lines.items()):
        spans = []  # first size, last size, rounds
        for size in sorted(size for n, op, size in results.get(condition, {})
                           if (n, op) == (ranks, operation)):
            rounds = cut.get(size)
            if spans and spans[-1][2] == rounds:
                spans[-1][1] = size
            else:
                spans.append([size, size, rounds])
        what = [f"{size_text(first)}{'' if first == last else ' to ' + size_text(last)} "
                + ("never" if rounds == 0 else f"{rounds} round{'' if rounds == 1 else 's'}")
                for first, last, rounds in spans if rounds is not None]
        names.setdefault((condition, operation, ranks, ", ".join(what)), []).append(name)
    return cuts + [f"{condition}, {operation}, {ranks} ranks, {', '.join(who)}: {what}"
                   for (condition, operation, ranks, what), who in names.items()]


def verdicts(results, extra):
    rows = targets.all_targets(results, extra)
    width = max(len(target) for target, _ in rows)
    return ["\ntargets"] + [f"{target.ljust(width)}  {verdict}" for target, verdict in rows]


def heading(run):
    beside = [f"{LABELS[name]} {version}" for name, version in run.get("versions", {}).items()
              if name in LABELS]
    counts = run.get("rounds_of", {})
    lines = [f"Rondo {run['commit']}, {run['date']}, {run['cores']} cores of {run['cpu']}, "
             f"{run['rounds']} rounds",
             f"beside: {', '.join(beside) or 'nothing that says its version'}"]
    lines += [f"missing: {text}" for text in run.get("missing", [])]
    return lines + [
        "rounds (one size, every contestant once): "
        f"{counts.get('near', 0)} on near cores, {counts.get('far', 0)} on far ones (an exchange "
        f"of a cache line in 100 ns or more), {counts.get('crossed', 0)} dropped, in which it "
        "crossed that limit"]


def write_csv(results, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["condition", "cores", "ranks", "operation", "bytes", "contestant",
                         "median_us", "rounds"])
        for condition, bin_name, part in views(results):
            for (ranks, operation, size), cell in sorted(part.items()):
                for name, values in sorted(cell.items()):
                    values = [value for value in values if value]
                    if values:
                        writer.writerow([condition, bin_name, ranks, operation, size, name,
                                         f"{median(values) * 1e6:.4g}", len(values)])


def write_json(run, results, extra, path):
    rows = [{"condition": condition, "ranks": n, "operation": op, "bytes": size,
             "microseconds": {name: [v and float(f"{v * 1e6:.4g}") for v in values]
                              for name, values in sorted(cell.items())}}
            for condition, part in results.items() for (n, op, size), cell in sorted(part.items())]
    verdict_rows = [{"target": t, "verdict": v} for t, v in targets.all_targets(results, extra)]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"run": run, "facts": extra, "targets": verdict_rows, "results": rows}, file)


def shown_in_pages(results):
    """The condition, bin and results of the picture and of the README's rows: real if it was
    measured, and the bin with more rounds."""
    seen = list(views(results))
    condition = max((name for name, _, _ in seen), key=["row", "single", "busy", "real"].index)
    return max((view for view in seen if view[0] == condition),
               key=lambda view: sum(rounds_of(cell) for cell in view[2].values()))


def write(run, results, extra, out):
    lines = heading(run)
    for condition, name, part in views(results):
        lines += tables(part, about_view(condition, name))
    lines += side_by_side(results) + cut_lines(run, results) + verdicts(results, extra)
    text = "\n".join(lines) + "\n"
    print(text, end="")
    with open(f"{out}/results.txt", "w", encoding="utf-8") as file:
        file.write(text)
    write_csv(results, f"{out}/results.csv")
    write_json(run, results, extra, f"{out}/results.json")
    plot.draw(shown_in_pages(results)[2], f"{out}/all_reduce.png", heading(run)[0])
    print(f"\nwritten: {out}/results.txt, results.csv, results.json, all_reduce.png")
