# SPDX-License-Identifier: Apache-2.0
"""Compares the PTX of sum_of_peers (device_layouts.cu) with the transcript of the barriers of
NVIDIA's headers in lsa_barrier_steps.inc: all fences, barriers of threads and accesses with an
order, in their order.

  lsa_barrier_steps.py VERSION PTX     of a kernel that was compiled with the header of this version

The kernel meets its peers twice; the end of the barrier's session is a meeting of threads. Weak
accesses are not compared. Ends with 1 and both lists where they differ.
"""

import pathlib
import re
import sys

ROWS = pathlib.Path(__file__).with_suffix(".inc")
KERNEL = re.compile(r"\.entry \w*sum_of_peers.*?\n\{\n(.*?)\n\}", re.DOTALL)
# An instruction, maybe behind a predicate or a label.
INSTRUCTION = re.compile(r"^\s*(?:@!?%\w+ |\S+: )?([a-z][\w.:]*)", re.MULTILINE)
# Whatever orders accesses or threads, in any scope.
ORDERS = re.compile(
    r"fence|membar|m?bar|atom|red|multimem|.*\.(?:volatile|relaxed|acquire|release|mmio)\b"
)
TYPE = re.compile(r"\.[busf]\d+$|\.(?:global|generic)\b")


def code_of(version: str) -> int:
    major, minor, patch = map(int, version.split("."))
    return 10000 * major + 100 * minor + patch


def steps_of(code: int) -> list[str]:
    """Of the last row that is not newer."""
    rows = re.findall(r"^LSA_BARRIER\((\d+),([^)]*)\)", ROWS.read_text(), re.MULTILINE)
    chosen = [words for first, words in rows if int(first) <= code]
    assert chosen, f"no row of {ROWS.name} is as old as {code}"
    return re.findall(r'"([^"]+)"', chosen[-1])


def accesses_of(ptx: str) -> list[str]:
    body = KERNEL.search(ptx)
    assert body, "the PTX has no kernel sum_of_peers"
    return [TYPE.sub("", word) for word in INSTRUCTION.findall(body[1]) if ORDERS.match(word)]


def main() -> int:
    version, file = sys.argv[1:3]
    steps = steps_of(code_of(version))
    wanted = [*steps, *steps, "bar.sync"]
    found = accesses_of(pathlib.Path(file).read_text())
    if found == wanted:
        print(f"NCCL {version}: its barrier is {', '.join(steps)}")
        return 0
    print(f"NCCL {version}: the PTX of its barrier is not that of {ROWS.name}")
    print(f"  PTX:        {', '.join(found)}\n  transcript: {', '.join(wanted)}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
