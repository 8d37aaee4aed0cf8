#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints how large the code is and how it hangs together, as a table for a page or a commit.

  python3 .ci/measures.py     the tracked files below the folder where it runs, so also those of
                              another commit in a worktree of its own

A module is a source with the header of its name. A cycle is a set of modules, folders or layers of
which each includes all others, directly or through others. The longest chain is the longest path of
includes, on which a cycle counts as one module. Nothing is built.
"""
import functools
import os
import re

from folders import folder_of
from imports import components, cycles, includes, module_of, python_imports
from lint import LAYERS, TEXT, tracked

PRODUCT = tuple(f"{layer}/" for layer in LAYERS if layer != "tests")
CPP = (".cc", ".h", ".cu")
TEST_CODE = (*CPP, ".c", ".py", ".sh", ".txt", ".cmake", ".patch")
GPU_CALLS = "collectives/gpu/"
TORCH = "api/torch/rondo/torch/"
SHORT = 40
ASSERTION = re.compile(r"(?<!\w)assert\(")


@functools.cache
def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read().split("\n")[:-1]


def lines_in(paths):
    return sum(len(lines_of(path)) for path in paths)


def assertions_in(paths):
    code = (TEXT.sub('""', line).split("//")[0] for path in paths for line in lines_of(path))
    return sum(len(ASSERTION.findall(line)) for line in code)


def longest_chain(graph):
    depth = {}
    for nodes in components(graph):
        below = {target for node in nodes for target in graph[node]} - set(nodes)
        depth |= dict.fromkeys(nodes, 1 + max((depth[target] for target in below), default=0))
    return max(depth.values())


def main():
    paths = tracked()
    product = [path for path in paths if path.startswith(PRODUCT) and path.endswith(CPP)]
    tests = [path for path in paths if path.startswith("tests/") and path.endswith(TEST_CODE)]
    short = [path for path in product if len(lines_of(path)) < SHORT]
    modules = includes(product, module_of)
    python = [path for path in paths if path.endswith(".py")]
    torch = [module_of(path) for path in python if path.startswith(TORCH)]
    graphs = {"modules": modules, "folders": includes(product, folder_of),
              "layers": includes(product, lambda path: path.split("/")[0]),
              "modules in Python": python_imports(python)}
    cycles_of = {what: cycles(graph) for what, graph in graphs.items()}
    in_cycles = {module for nodes in cycles_of["modules in Python"] for module in nodes}
    rows = {
        "collectives/gpu, lines": lines_in(path for path in paths if path.startswith(GPU_CALLS)),
        "product files in C++": len(product),
        f"of these under {SHORT} lines": len(short),
        "product lines in C++": lines_in(product),
        "lines of tests, scripts included": lines_in(tests),
        "assertions at run time": assertions_in(product),
        "modules in C++": len(modules),
        "longest chain of modules": longest_chain(modules),
        f"modules of {TORCH.rstrip('/')}": len(torch),
        "of these in cycles of imports": len(in_cycles.intersection(torch)),
        **{f"cycles of {what}": len(found) for what, found in cycles_of.items()},
    }
    print("| measure | value |\n|---|---|")
    for what, value in rows.items():
        print(f"| {what} | {value:,} |")
    for what, found in cycles_of.items():
        for nodes in found:
            print(f"\nA cycle of {what}: {', '.join(nodes)}")


if __name__ == "__main__":
    main()
