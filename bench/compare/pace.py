# SPDX-License-Identifier: Apache-2.0
"""Fits a comparison into a given time: which slow contestants are cut, and the number of rounds of
the others.

MPI on more ranks than cores takes seconds for a call of megabytes where others take milliseconds.
Within a time limit every contestant is measured once, if its smaller sizes show that it can finish.
Then the costliest measurements are left out of later rounds, the fastest MPI of a size last of all,
until some rounds fit. A contestant that gave no answer is not asked for that or more bytes again,
with or without a time limit. report.py prints below the tables what was cut.
"""
import time

MIN_ROUNDS = 5
CALLS_OF_A_FIRST_TIME = 9  # an estimate and one measurement: groups.py
SHORTEST_PATIENCE = 15.0
MAX_GROWTH = 16            # of a call's time from one size to the next: small calls cost the same
LARGEST_SHARE = 0.02       # maximum of one first measurement, of the time for its number of ranks


class Pace:
    def __init__(self, seconds, rounds, may_cut):
        self.seconds, self.rounds, self.may_cut = seconds, rounds, set(may_cut)
        self.began = time.monotonic()
        self.turns = 0
        self.costs = {}  # (operation, size, name) -> wall seconds of the newest measurement
        self.calls = {}  # the same -> seconds per call
        self.cuts = {}   # the same -> rounds in which it was measured

    def left(self):
        return self.seconds - (time.monotonic() - self.began)

    def wants(self, operation, size, name):
        """True if this contestant is measured now."""
        key = (operation, size, name)
        if key not in self.cuts and not self.hopeless(*key):
            return True
        self.cuts.setdefault(key, 0)
        return False

    def hopeless(self, operation, size, name):
        """Judged by the largest smaller size: it gave no answer, or would take too much of the
        time."""
        smaller = [s for op, s, who in self.calls if (op, who) == (operation, name) and s < size]
        if self.turns > 0 or name not in self.may_cut or not smaller:
            return False
        largest = max(smaller)
        if (operation, largest, name) in self.cuts:
            return True
        if self.seconds is None:
            return False
        call = self.calls[operation, largest, name] * min(size / largest, MAX_GROWTH)
        return call * CALLS_OF_A_FIRST_TIME > LARGEST_SHARE * self.seconds

    def patience(self, name, usual):
        """Seconds to wait for an answer: at most what three hopeless first measurements would
        take."""
        if self.seconds is None or name not in self.may_cut:
            return usual
        return min(usual, max(3 * LARGEST_SHARE * self.seconds, SHORTEST_PATIENCE))

    def give_up(self, operation, size, name, waited):
        self.cuts[operation, size, name] = self.turns
        self.calls[operation, size, name] = waited
        self.costs.pop((operation, size, name), None)

    def note(self, operation, size, name, wall, call):
        self.costs[operation, size, name] = wall
        self.calls[operation, size, name] = call

    def go_on(self):
        """After a round: whether another one fits, perhaps without what is now cut."""
        self.turns += 1
        if self.seconds is None or self.turns >= self.rounds:
            return self.turns < self.rounds
        kept = {key: cost for key, cost in self.costs.items() if key not in self.cuts}
        wanted = max(min(MIN_ROUNDS, self.rounds) - self.turns, 1)
        for key in self.costliest_first(kept):
            if sum(kept.values()) * wanted <= self.left():
                break
            self.cuts[key] = self.turns
            del kept[key]
        return sum(kept.values()) <= self.left()

    def costliest_first(self, kept):
        best = {}
        for operation, size, name in kept:
            if name in self.may_cut:
                cell, call = (operation, size), self.calls[operation, size, name]
                best[cell] = min(best.get(cell, (call, name)), (call, name))
        def order(key):
            return (best[key[:2]][1] == key[2], -kept[key])
        return sorted((key for key in kept if key[2] in self.may_cut), key=order)
