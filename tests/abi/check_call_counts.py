# SPDX-License-Identifier: Apache-2.0
"""check_call_counts.py LIBRARY: every function of nccl_exports.txt, called with zeros only,
returns, and counts its call as ncclX and as pncclX, and no other function's.
"""
import ctypes
import pathlib
import sys

library = ctypes.CDLL(sys.argv[1])
names = pathlib.Path(__file__).with_name("nccl_exports.txt").read_text().split()


def count(name):
    calls = ctypes.c_uint64()
    assert library.rondoGetCallCount(name.encode(), ctypes.byref(calls)) == 0, name
    return calls.value


zeros = [ctypes.c_void_p(0)] * 40  # enough for a struct of 128 bytes by value
expected = {name: 0 for name in names}
for name in names:
    for spelling in (name, "p" + name):
        getattr(library, spelling)(*zeros)
        expected[name] += 1
        if name.endswith("GroupStart"):
            library.ncclGroupEnd()
            expected["ncclGroupEnd"] += 1
    assert count(name) == expected[name], (name, count(name))
counts = {name: count(name) for name in names}
assert counts == expected, {n: c for n, c in counts.items() if c != expected[n]}
print(f"{len(names)} functions count their calls")
