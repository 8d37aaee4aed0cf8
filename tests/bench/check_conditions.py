# SPDX-License-Identifier: Apache-2.0
"""bench/compare.sh: conditions, bins of the rounds, tables, and the pages made from them; the
groups and the clock of the cores are replaced."""
import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import compare  # noqa: E402
import conditions  # noqa: E402
import contestants  # noqa: E402
import publish  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402
import targets  # noqa: E402
from pace import Pace  # noqa: E402

NEAR, FAR = 50e-9, 240e-9
happened = []   # what the driver did, in order
exchanges = []  # what the measurements of the line give, in order


class FakeLoops:
    def __init__(self, count):
        self.count = count

    def __enter__(self):
        return self

    def __exit__(self, *_):
        happened.append("loops end")

    def go_on(self):
        happened.append(f"{self.count > 0 and 'loops run'}")

    def pause(self):
        happened.append("loops stop")


class FakeGroup:
    """Rondo takes 2 us, every other 1 us; those that launchers place 10 times as long."""

    def __init__(self, name, ranks, build, bound=True):
        self.name, self.bound, self.patience = name, bound, 0
        if name == "mpich":
            raise rounds.ContestantFailed("mpich on 2 ranks:\nit does not start")

    def version(self):
        return {"openmpi": "5.0.11"}.get(self.name, "")

    def seconds(self):
        return (2 if self.name == "rondo" else 1) * (1e-6 if self.bound else 1e-5)

    def measure(self, operation, size, budget):
        if self.name == "line":
            return exchanges.pop(0)
        happened.append(f"{self.name} {self.bound} row")
        return self.seconds()

    def measure_single(self, operation, size, budget, condition="single"):
        happened.append(f"{self.name} {self.bound} {condition}")
        return self.seconds()

    def few_singles(self, operation, size):
        return self.measure_single(operation, size, 0.01, "a few")

    def close(self, hangs=False):
        happened.append(f"{self.name} ends")


def run(words, exchanged, turns=1, missing=()):
    """A run of compare.py's rounds on 2 ranks with the fakes."""
    rounds.Group, rounds.busy.BusyLoops = FakeGroup, FakeLoops
    rounds.can_run = lambda name, operation, build: name in ("openmpi", "mpich")
    happened.clear()
    exchanges[:] = exchanged
    options = compare.parse(["--operations", "broadcast", "--sizes", "64", "--rounds", str(turns),
                             "--contestants", "rondo,openmpi,mpich", *words])
    results, counts, about = {}, {}, {"versions": {}, "missing": []}
    pace = Pace(None, options.rounds, contestants.RIVALS)
    with contextlib.redirect_stderr(io.StringIO()) as errors, \
            rounds.Rounds(2, options, pace, results, counts, about) as them:
        them.run(compare.sizes_of)
    assert "compare: goes on without mpich" in errors.getvalue(), errors.getvalue()
    assert about == {"versions": {"openmpi": "5.0.11"},
                     "missing": ["mpich: mpich on 2 ranks: it does not start", *missing]}, about
    return results, counts


def rounds_of_three_conditions():
    results, counts = run(["--condition", "row,single,real"], [NEAR] * 6)
    assert counts == {"near": 3}, counts
    did = [text for text in happened if text[:5] in ("rondo", "openm") and "ends" not in text]
    assert did == ["rondo True row", "openmpi True row", "rondo True single",
                   "openmpi True single",  # 1 us: the typical call of "real"
                   "rondo False real 0.000001000 0", "openmpi False real 0.000001000 0"], did
    at = happened.index("loops run")
    assert happened[at + 1].startswith("rondo False real") and happened[at + 3] == "loops stop"
    assert sorted(results) == ["real", "row", "single"]
    cell = results["real"][2, "broadcast", 64]
    assert cell == {"rondo": [2e-5], "openmpi": [1e-5], "mpich": [None], "line": [NEAR]}, cell


def typical_call_of_real():
    """Where nothing else measured single calls, each contestant makes a few before the loops run;
    once for each size."""
    run(["--real"], [NEAR] * 4, turns=2)
    did = [text for text in happened if "ends" not in text and "mpich" not in text]
    assert did[:3] == ["rondo False a few", "openmpi False a few", "loops run"], did
    assert did[3:5] == ["rondo False real 0.000010000 0", "openmpi False real 0.000010000 0"], did
    assert did[-5:-1] == ["loops run", "openmpi False real 0.000010000 1",
                          "rondo False real 0.000010000 1", "loops stop"], did


def rival_that_fails():
    """It is named and left out; the others go on. Rondo's failure ends the run."""
    def fails_in(name, error):
        def measure(self, operation, size, budget):
            if self.name == name and len(exchanges) < 4:
                raise error(f"{name} on 2 ranks: error wrong result")
            return exchanges.pop(0) if self.name == "line" else self.seconds()
        return measure

    usual = FakeGroup.measure
    try:
        FakeGroup.measure = fails_in("openmpi", rounds.ContestantFailed)
        results, _ = run([], [NEAR] * 6, turns=3, missing=["openmpi: openmpi on 2 ranks: error "
                                                           "wrong result"])
        cell = results["row"][2, "broadcast", 64]
        assert cell["openmpi"] == [1e-6, None, None] and len(cell["rondo"]) == 3, cell
        FakeGroup.measure = fails_in("openmpi", rounds.NoAnswer)
        results, _ = run([], [NEAR] * 6, turns=3)
        assert results["row"][2, "broadcast", 64]["openmpi"] == [1e-6, None, None], results
        assert happened.count("openmpi ends") == 2, "it was started again"
        FakeGroup.measure = fails_in("rondo", rounds.ContestantFailed)
        try:
            run([], [NEAR] * 6, turns=3)
            raise AssertionError("Rondo's wrong result was passed over")
        except rounds.ContestantFailed:
            pass
    finally:
        FakeGroup.measure = usual


def rounds_beside_loops():
    run(["--busy"], [NEAR] * 2)
    at = happened.index("loops run")
    assert happened[at + 1:at + 4] == ["rondo True row", "openmpi True row", "loops stop"], happened


def rounds_in_bins():
    """A round on far cores is kept; one in which the distance crossed the limit is not."""
    seen = [NEAR, NEAR, FAR, FAR, NEAR, FAR, FAR, FAR]
    results, counts = run([], seen, turns=4)
    assert counts == {"near": 1, "far": 2, "crossed": 1}, counts
    cell = results["row"][2, "broadcast", 64]
    assert len(cell["rondo"]) == 3 and cell["line"] == [NEAR, FAR, FAR], cell
    views = list(conditions.views(results))
    assert [(name, where) for name, where, _ in views] == [("row", "near"), ("row", "far")], views
    assert [conditions.rounds_of(part[2, "broadcast", 64]) for _, _, part in views] == [1, 2]


def cell_of(ours, theirs, lines):
    return {"rondo": [ours] * len(lines), "intel_mpi": [theirs] * len(lines), "line": lines}


def stored(folder):
    """results.json of a run of three conditions, with "real" on both kinds of cores."""
    key = (2, "all_reduce", 1 << 16)
    results = {"row": {key: cell_of(5e-6, 6e-6, [NEAR] * 3)},
               "single": {key: cell_of(6e-6, 5e-6, [NEAR] * 3)},
               "real": {key: cell_of(9e-6, 5e-6, [NEAR, FAR, FAR])}}
    about = {"commit": "abc", "date": "2026-11-28", "cpu": "X", "cores": 2, "rounds": 3,
             "versions": {"intel_mpi": "2021.19"}, "missing": ["oneccl: not installed"],
             "rounds_of": {"near": 7, "far": 2, "crossed": 4}, "minutes": 5,
             "cuts": [[2, "all_reduce", 1 << 16, "mpich", 0, "real"]]}
    report.write_json(about, results, {}, f"{folder}/results.json")
    with open(f"{folder}/results.json", encoding="utf-8") as file:
        read = json.load(file)
    again = report.results_in(read)
    assert sorted(again) == sorted(results)
    assert [round(v * 1e6, 3) for v in again["real"][key]["rondo"]] == [9, 9, 9], again
    return about, results


def tables_and_verdicts(about, results):
    head = "\n".join(report.heading(about))
    assert "Intel MPI 2021.19" in head and "missing: oneccl: not installed" in head, head
    assert "7 on near cores, 2 on far ones" in head and "4 dropped" in head, head
    _, _, far = list(conditions.views(results))[3]
    lines = report.tables(far, report.about_view("real", "far"))
    assert "far cores" in lines[0] and lines[1].split()[-1] == "rounds", lines
    assert lines[2].split()[0] == "64K" and lines[2].split()[-1] == "2", lines
    beside = report.side_by_side(results)
    assert beside[1].split() == ["bytes", "row", "near", "single", "near", "real", "near", "real",
                                 "far"], beside
    assert "5.00 / 6.00 impi (0.83)" in beside[2] and "9.00 / 5.00 impi (1.80)" in beside[2]
    assert "real, all_reduce, 2 ranks, mpich: 64K never" in "\n".join(
        report.cut_lines(about, results))
    verdicts = dict(targets.all_targets(results, {}))
    assert verdicts["2 ranks, row near: nowhere above 1.05 of the best"] == "met", verdicts
    assert verdicts["2 ranks, real far: nowhere above 1.5 of the best"] == \
        "missed: all_reduce 64K 1.80 of intel_mpi", verdicts


def pages(folder):
    run_of_it = publish.Run(Path(folder) / "results.json")
    condition, name, _ = run_of_it.shown
    assert (condition, name) == ("real", "far"), "real, and the bin with more rounds"
    lines = publish.readme(run_of_it)
    assert "busy loop" in lines[0] and "cores far apart" in lines[0], lines
    assert "one (Intel MPI 2021.19)" in lines[0], lines
    assert lines[4] == "| all-reduce, 2 processes, 64 KiB | 9.00 | Intel MPI 5.00 " \
        "| `bash bench/compare.sh --real` |", lines
    table = publish.table(run_of_it)
    assert table[2] == "| ranks | condition | | 64 KiB |", table
    assert [line.split(" | ")[1] for line in table[4:]] == [
        text for text in ("row near", "single near", "real near", "real far") for _ in (0, 1)]
    assert table[-2] == "| 2 | real far | Rondo | 9.00 |", table


def older_run():
    """A run from before the conditions: calls in a row, no record of the cores' distance."""
    old = {"results": [{"ranks": 2, "operation": "all_reduce", "bytes": 4,
                        "microseconds": {"rondo": [0.5], "openmpi_sm": [0.4]}}]}
    results = report.results_in(old)
    assert [view[:2] for view in conditions.views(results)] == [("row", "")], results
    assert report.condition_of([2, "all_reduce", 4, "mpich", 0]) == "row"


def options():
    real = compare.parse(["--real"])
    assert (real.conditions, real.ranks, real.out) == (["real"], [2, 4], "build/compare-real")
    assert real.no_facts, "the facts are of an idle machine"
    assert compare.parse(["--busy"]).conditions == ["busy"]
    usual = compare.parse([])
    assert (usual.conditions, usual.ranks, usual.rounds) == (["row"], [2, 4, 8], 11)
    assert usual.out == "build/compare" and not usual.no_facts
    quick = compare.parse(["--quick", "--ranks", "2", "--rounds", "2"])
    assert (quick.ranks, quick.rounds, quick.operations) == ([2], 2, ["all_reduce", "broadcast"])
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            compare.parse(["--condition", "row,quiet"])
            raise AssertionError("an unknown condition was taken")
        except SystemExit:
            pass
    assert "unknown condition quiet: one of row, single, real, busy" in errors.getvalue()


def placement():
    """Nobody is told how to bind in "real"; else every launcher is told not to."""
    for name in ("openmpi", "openmpi_ucx", "openmpi_debian", "intel_mpi"):
        words = {bound: contestants.command_of(name, 2, "/f", "build", bound)
                 for bound in (True, False)}
        for bound, command in words.items():
            unbinds = "--bind-to" in command or "I_MPI_PIN=0" in command
            assert unbinds == bound, (name, command)
    for name in ("rondo", "mpich", "oneccl"):
        assert contestants.command_of(name, 2, "/f", "build", True) == \
            contestants.command_of(name, 2, "/f", "build", False), name


def versions():
    for text, version in (("Open MPI v5.0.11, package: Open MPI x@y Distribution", "5.0.11"),
                          ("MPICH Version:\t5.0.2\nMPICH Release date:\tFri", "5.0.2"),
                          ("Intel(R) MPI Library 2021.19 for Linux* OS\n", "2021.19"), ("", "")):
        assert contestants.version_in(text) == version, text


def main():
    placement()
    versions()
    options()
    older_run()
    rounds_of_three_conditions()
    rounds_beside_loops()
    rounds_in_bins()
    typical_call_of_real()
    rival_that_fails()
    with tempfile.TemporaryDirectory() as folder:
        about, results = stored(folder)
        tables_and_verdicts(about, results)
        pages(folder)


main()
