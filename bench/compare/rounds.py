# SPDX-License-Identifier: Apache-2.0
"""The rounds of bench/compare.sh: every contestant of a cell once, in turns."""
import os
import sys
import time

import busy
import conditions
from contestants import DIRECT_LOOPS, OWN_LOOPS, RIVALS, RONDO, absent, can_run
from groups import PATIENCE, ContestantFailed, Group, NoAnswer


def contestants_of(options, operation):
    names = RONDO + [name for name in RIVALS if can_run(name, operation, options.build)]
    if operation == "all_reduce":
        names = names + OWN_LOOPS + DIRECT_LOOPS
    if options.contestants:
        names = [name for name in names if name in options.contestants.split(",")]
    return names


class Rounds:
    """All groups of one number of ranks; one set bound by the contestants, another placed by the
    launchers if a condition needs it. `results`: by condition, then (ranks, operation, bytes)."""

    def __init__(self, ranks, options, pace, results, counts, about):
        self.ranks, self.options, self.pace = ranks, options, pace
        self.results, self.counts, self.about = results, counts, about
        self.groups = {}   # (name, bound)
        self.typical = {}  # (operation, bytes) -> seconds: the fastest single call
        cores = len(os.sched_getaffinity(0))
        beside = conditions.BESIDE_LOOPS & set(options.conditions)
        self.loops = busy.BusyLoops(cores if beside else 0)

    def __enter__(self):
        self.loops.__enter__()
        self.line = Group("line", 2, self.options.build)
        try:
            for bound in sorted({self.bound(name) for name in self.options.conditions}):
                for name in contestants_of(self.options, "all_reduce"):
                    self.start(name, bound)
        except BaseException:  # also if it is told to end
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for group in [self.line, *self.groups.values()]:
            group.close()
        self.loops.__exit__()

    @staticmethod
    def bound(condition):
        """False: each rank has the cores that its launcher gives it by default."""
        return condition != "real"

    def start(self, name, bound):
        try:
            group = Group(name, self.ranks, self.options.build, bound)
        except ContestantFailed as failure:
            if name not in RIVALS:
                raise
            self.missing(name, str(failure))
            return
        self.groups[name, bound] = group
        if group.version():
            self.about["versions"][name] = group.version()

    def missing(self, name, why):
        text = f"{name}: {' '.join(why.split())[:200]}"
        if text not in self.about["missing"]:
            self.about["missing"].append(text)
            print(f"compare: goes on without {text}", file=sys.stderr)

    def ask(self, key, what, measure):
        """The seconds that `measure` gets from a group; None if a rival hangs (it is started again)
        or fails (it is left out from now on)."""
        name, bound = key
        group = self.groups[key]
        group.patience = self.pace.patience(name, PATIENCE)
        try:
            return measure(group)
        except ContestantFailed as failure:
            if name not in RIVALS:
                raise
            group.close(hangs=True)
            del self.groups[key]
            if isinstance(failure, NoAnswer):
                print(f"compare: {what}: {failure}", file=sys.stderr)
                self.start(name, bound)
            else:
                self.missing(name, str(failure))
        return None

    def measure_one(self, name, condition, operation, size, seed):
        """Seconds per call; None if the time limit cut it, or if a rival gave no answer."""
        where, key = (condition, operation), (name, self.bound(condition))
        if key not in self.groups or not self.pace.wants(where, size, name):
            return None
        what = f"{condition}, {operation} of {size} bytes"
        budget = self.options.budget or conditions.BUDGETS[condition]
        began = time.monotonic()
        if condition in ("row", "busy"):
            seconds = self.ask(key, what, lambda group: group.measure(operation, size, budget))
        else:
            words = self.words(condition, operation, size, seed)
            seconds = self.ask(
                key, what, lambda group: group.measure_single(operation, size, budget, words))
        wall = time.monotonic() - began
        if seconds is None:
            self.pace.give_up(where, size, name, wall)
        else:
            self.pace.note(where, size, name, wall, seconds)
        return seconds

    def words(self, condition, operation, size, seed):
        """The condition's words of a line: loop.h."""
        if condition == "single":
            return "single"
        return f"real {self.typical[operation, size]:.9f} {seed}"

    def typical_call(self, names, operation, size):
        """The fastest contestant's time of one call, with cores and caches to itself: what "real"
        derives its delays from, if the condition "single" did not measure it."""
        what = f"single, {operation} of {size} bytes"
        times = [self.ask((name, False), what, lambda group: group.few_singles(operation, size))
                 for name in names if (name, False) in self.groups
                 and self.pace.wants(("real", operation), size, name)]
        return min((seconds for seconds in times if seconds), default=1e-6)

    def measure_round(self, condition, operation, size, turn):
        """One round, between two measurements of the line exchange."""
        names = contestants_of(self.options, operation)
        if condition == "real" and (operation, size) not in self.typical:
            self.typical[operation, size] = self.typical_call(names, operation, size)
        names = names[turn % len(names):] + names[:turn % len(names)]
        before = self.line.measure("all_reduce", 4, 0.002)
        if condition in conditions.BESIDE_LOOPS:
            self.loops.go_on()
        try:
            times = {name: self.measure_one(name, condition, operation, size, turn)
                     for name in names}
        finally:
            self.loops.pause()
        after = self.line.measure("all_reduce", 4, 0.002)
        if condition == "single" and any(times.values()):
            self.typical.setdefault((operation, size), min(filter(None, times.values())))
        near = conditions.bin_of(before)
        key = near if near == conditions.bin_of(after) else "crossed"
        self.counts[key] = self.counts.get(key, 0) + 1
        cell = self.results.setdefault(condition, {}).setdefault((self.ranks, operation, size), {})
        if key == "crossed":
            return
        for name, seconds in times.items():
            cell.setdefault(name, []).append(seconds)
        cell.setdefault("line", []).append((before + after) / 2)

    def run(self, sizes_of):
        going = True
        while going:
            turn = self.pace.turns
            for operation in self.options.operations:
                for size in sizes_of(self.options, operation):
                    for condition in self.options.conditions:
                        self.measure_round(condition, operation, size, turn)
            if sys.stderr.isatty():
                print(f"\r{self.ranks} ranks, round {turn + 1} of at most {self.options.rounds}",
                      end="", file=sys.stderr)
            going = self.pace.go_on()


def not_installed(options):
    wanted = options.contestants.split(",") if options.contestants else RIVALS
    return [f"{name}: not installed" for name in RIVALS
            if name in wanted and absent(name, options.build)]
