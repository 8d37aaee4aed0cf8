# SPDX-License-Identifier: Apache-2.0
"""The check of a GPU: python3 tests/gpu/check BUILD [A|B|AB|NEXT]; check.sh starts it.

BUILD has bin/ and lib/. Variables: OUT, ONLY, LIST, JOBS, SECONDS_IN_ALL, SIZES, PATIENCE; see
check.sh. Ends with 1 where a stage failed or hung, with 77 where there is no device.
"""

import os
import sys
import tempfile

import fast
import open_questions
import predictions
import right
import roof
import suites
from machine import Machine
from results import MAX_PRINTED, Results, shortened
from runner import Runner
from stage import Stage, chosen

# Seconds for each set: a call takes 8 minutes, less its start and end; with NEXT, 14.
PLANNED = {"A": 460.0, "B": 460.0, "NEXT": 380.0}
SETS = {"A": ["A"], "B": ["B"], "AB": ["A", "B"], "NEXT": ["NEXT", "A"]}


def stages_of(which: str, machine: Machine) -> list[Stage]:
    if which == "A":
        found = right.stages() + suites.suites(machine)
    else:
        found = fast.stages() if which == "B" else open_questions.stages()
    only = [word for word in os.environ.get("ONLY", "").split(",") if word]
    return sorted(
        (stage for stage in found if chosen(stage.name, only)), key=lambda stage: stage.priority
    )


def list_all(machine: Machine, sets: list[str]) -> int:
    for which in sets:
        stages = stages_of(which, machine)
        print(f"set {which}: {len(stages)} stages, {PLANNED[which]:.0f} s by default")
        for stage in stages:
            why = machine.lacks(stage.needs)
            tests = f"  {len(stage.tests)} tests" if stage.tests else ""
            print(f"  {stage.name:<60} at most {stage.limit:>4.0f} s{tests}"
                  + (f"  (not here: {why})" if why else ""))  # fmt: skip
    return 0


def conclude(results: Results, sets: list[str]) -> int:
    rows = roof.rows_of(results.records)
    if "NEXT" in sets:
        results.verdicts = open_questions.verdicts(results.records)
    results.roof, results.running = rows, []
    summary = results.summary()
    if rows:
        results.replace("roof.txt", f"{roof.table(rows)}\n{predictions.markdown(rows)}")
    results.replace("summary.txt", summary)
    results.write(complete=True)
    last = shortened(summary, MAX_PRINTED // (2 if rows else 1), "summary.txt")
    table = shortened(roof.short(rows), MAX_PRINTED - len(last), "roof.txt") if rows else ""
    print(f"\n{table}\n{last}", end="", flush=True)
    counts = results.counts()
    if not results.records:
        print(f"no stage is called {os.environ.get('ONLY')}; LIST=1 names them")
        return 2
    return 1 if counts["failed"] or counts["hung"] else 0


def main() -> int:
    built, sets = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "AB"
    if sets not in SETS:
        sys.exit(f"'{sets}' is no set of stages: A (is it right), B (is it fast), NEXT (what no "
                 "GPU has answered, then A), or nothing for A and B")  # fmt: skip
    machine = Machine(os.path.abspath(built))
    if os.environ.get("LIST", "0") != "0":
        return list_all(machine, SETS[sets])
    if machine.gpus == 0:
        print("no GPU: nvidia-smi finds none on this machine; nothing was checked", file=sys.stderr)
        return 77
    out = os.path.abspath(os.environ.get("OUT") or "gpu-results")
    os.makedirs(out, exist_ok=True)
    os.environ.setdefault("RONDO_TIMEOUT", "10")
    carried = os.path.join(os.path.abspath(built), "topology")  # next to a bundle's bin/
    if os.path.isdir(carried):
        os.environ.setdefault("TOPOLOGY_FIXTURES", carried)
    planned = sum(PLANNED[which] for which in SETS[sets])
    jobs = int(os.environ.get("JOBS") or max(1, min(8, (os.cpu_count() or 1) * 3 // 8)))
    seconds = float(os.environ.get("SECONDS_IN_ALL") or planned)
    results = Results(out, machine.facts(), sets)
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        runner = Runner(machine, results, jobs, float(os.environ.get("PATIENCE") or 1), folder)
        end = runner.now() + seconds
        for which in SETS[sets]:
            share = (end - runner.now()) * PLANNED[which] / planned
            planned -= PLANNED[which]
            runner.run(stages_of(which, machine), share, which, suites.Followers(machine))
    return conclude(results, SETS[sets])


if __name__ == "__main__":
    sys.exit(main())
