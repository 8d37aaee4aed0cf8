# SPDX-License-Identifier: Apache-2.0
"""The conditions in which bench/compare.sh measures, and the bins of its rounds.

  row     calls in a row; the time of a block divided by its calls
  single  one call at a time: all ranks meet before it; from the latest entry to the latest return
  real    the same, beside one busy loop a core; before each call each rank writes the buffer that
          it sends and 8 MiB of its own, and one rank (by a seed) comes late, by 0 to 2 times what
          the fastest contestant takes for one call. Ranks have the cores that their launcher gives
          them by default
  busy    row beside one busy loop a core

A round is near or far by the exchange of a cache line between the two cores before and after it:
the hypervisor of a virtual machine moves them. Rounds in which it crossed the limit are in no bin.
"""
NAMES = ["row", "single", "real", "busy"]
BESIDE_LOOPS = {"real", "busy"}
TITLES = {"row": "calls in a row", "single": "one call at a time", "busy": "calls in a row, busy",
          "real": "real: late ranks, cold caches, busy cores"}
LIMITS = {"row": 1.05, "single": 1.05, "real": 1.5, "busy": 1.5}  # of the fastest other
BUDGETS = {"row": 0.03, "single": 0.03, "real": 0.2, "busy": 0.2}  # seconds for one measurement

FAR = 100e-9  # seconds for an exchange of a cache line
BINS = {"near": "near cores: a cache line in less than 100 ns",
        "far": "far cores: a cache line in 100 ns or more"}


def bin_of(exchange):
    return "far" if exchange >= FAR else "near"


def in_bin(results, name):
    """The rounds of that bin. Cells without a record of the exchange are in none."""
    found = {}
    for key, cell in results.items():
        rounds = [i for i, exchange in enumerate(cell.get("line", []))
                  if bin_of(exchange) == name]
        if rounds:
            found[key] = {who: [values[i] for i in rounds if i < len(values)]
                          for who, values in cell.items()}
    return found


def rounds_of(cell):
    return max((len(values) for values in cell.values()), default=0)


def views(results):
    """For each condition and bin that has rounds: (condition, bin, results). `results`: by
    condition. The bin is "" where nothing recorded the exchange."""
    for condition in NAMES:
        whole = results.get(condition)
        if not whole:
            continue
        bins = {name: in_bin(whole, name) for name in BINS}
        if not any(bins.values()):
            yield condition, "", whole
        for name, part in bins.items():
            if part:
                yield condition, name, part
