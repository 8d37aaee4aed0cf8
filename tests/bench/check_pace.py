# SPDX-License-Identifier: Apache-2.0
"""bench/compare.sh --minutes: what is cut so that a comparison ends in time (simulated clock)."""
import sys

sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import pace  # noqa: E402

SIZES = [4, 64 << 10, 1 << 20, 16 << 20]
SECONDS_A_BYTE = {"rondo": 1e-9, "openmpi": 1e-8, "mpich": 1e-7, "openmpi_sm": 1e-6}
MPIS = ["openmpi", "mpich", "openmpi_sm"]
clock = 0.0


class Clock:
    @staticmethod
    def monotonic():
        return clock


def compare(seconds, rounds):
    """A whole comparison as compare.py drives it; returns the pace, and rounds by (size, name)."""
    global clock
    clock = 0.0
    pace.time = Clock
    it = pace.Pace(seconds, rounds, MPIS)
    measured = {}
    going = True
    while going:
        for size in SIZES:
            for name, per_byte in SECONDS_A_BYTE.items():
                if not it.wants("all_gather", size, name):
                    continue
                call = per_byte * size + 1e-6
                wall = max(0.03, call * (4 if it.turns else pace.CALLS_OF_A_FIRST_TIME))
                clock += wall
                it.note("all_gather", size, name, wall, call)
                measured[size, name] = measured.get((size, name), 0) + 1
        going = it.go_on()
    return it, measured


def no_answer():
    """A contestant that gave no answer is not asked for that or more, with or without a time
    limit."""
    pace.time = Clock
    for seconds in (None, 600):
        it = pace.Pace(seconds, 11, MPIS)
        assert it.patience("rondo", 120) == 120
        assert it.patience("mpich", 120) == (120 if seconds is None else 36)
        it.note("gather", 4, "mpich", 0.03, 1e-6)
        it.give_up("gather", 4096, "mpich", 36)
        assert it.wants("gather", 4, "mpich") and it.wants("scatter", 4096, "mpich")
        assert not it.wants("gather", 4096, "mpich") and not it.wants("gather", 8192, "mpich")
        assert it.wants("gather", 8192, "openmpi")
        assert it.cuts == {("gather", 4096, "mpich"): 0, ("gather", 8192, "mpich"): 0}, it.cuts


def growth():
    """A slow call of few bytes does not condemn larger ones: its time is the scheduler's."""
    pace.time = Clock
    it = pace.Pace(300, 11, MPIS)
    it.note("gather", 64, "mpich", 0.1, 4e-3)
    assert it.wants("gather", 64 << 10, "mpich"), it.cuts
    it.note("gather", 64 << 10, "mpich", 1, 0.1)
    assert not it.wants("gather", 1 << 20, "mpich")


def main():
    no_answer()
    growth()
    whole = 976  # seconds for 11 rounds of everything
    everything, measured = compare(None, 11)
    assert not everything.cuts and set(measured.values()) == {11} and abs(clock - whole) < 1, clock
    for seconds in (20, 60, 200, 600):
        it, measured = compare(seconds, 11)
        assert clock <= seconds, (seconds, clock)
        assert it.turns >= min(pace.MIN_ROUNDS, 11), (seconds, it.turns)
        assert it.cuts, seconds
        for (size, name), rounds in measured.items():
            wanted = it.cuts.get(("all_gather", size, name), it.turns)
            assert rounds == wanted, (seconds, size, name, rounds)
        assert all(name in MPIS for _, _, name in it.cuts), it.cuts
        assert all(measured[size, "rondo"] == it.turns for size in SIZES)
    assert not compare(10000, 11)[0].cuts, "what fits is not cut"


main()
