# SPDX-License-Identifier: Apache-2.0
"""Checks that modules include or import each other without a cycle: of C++, a source with the
header of its name (those of tests may); of Python, a file.

In Python imports inside functions, and those that only a type checker runs, count as well. `from
PACKAGE import NAME` imports the module NAME of the package if there is one, else the package
itself. A module of a folder that is no package is imported by scripts that put the folder into
sys.path.
"""
import ast
import collections
import os

from folders import INCLUDE, folder_of

ROOTS = ("api/torch", "api/cu13")  # the packages of wheels are below these
CPP = (".cc", ".h", ".cu")
# Cycles of C++ that are still there, by their first module.
KNOWN_CYCLES = ("kernels/cuda/kernel_rows",)


def module_of(path):
    return os.path.splitext(path)[0].removesuffix("/__init__")


def imported_by(path, text, modules):
    """The modules that this file imports, of those in `modules`."""
    package = path.rpartition("/")[0]
    folders = [] if package in modules else [package]

    def found(name):
        file = name.replace(".", "/")
        return next((f"{root}/{file}" for root in (*folders, *ROOTS, "tests", ".ci")
                     if f"{root}/{file}" in modules), None)

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (found(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:  # relative to the package
                above = package.split("/")[:len(package.split("/")) + 1 - node.level]
                parent = "/".join([*above, *filter(None, base.split("."))])
                names = [f"{parent}/{alias.name}" for alias in node.names]
                yield from (name if name in modules else parent for name in names)
            else:
                names = [found(f"{base}.{alias.name}") for alias in node.names]
                yield from (name or found(base) for name in names)


def python_imports(paths):
    """{module: the modules that it imports}, wherever in the file it does."""
    graph = {module_of(path): set() for path in paths}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            imported = set(imported_by(path, file.read(), graph))
        graph[module_of(path)] = imported - {None, module_of(path)}
    return graph


def includes(paths, place):
    """{place: the places that it includes}, where place(path) is a path's module or folder."""
    known, graph = set(paths), collections.defaultdict(set)
    for path in paths:
        graph[place(path)].update()
        with open(path, encoding="utf-8") as file:
            for include in filter(None, map(INCLUDE.match, file)):
                beside = os.path.normpath(os.path.join(folder_of(path), include.group(1)))
                target = next((name for name in (include.group(1), beside) if name in known), path)
                graph[place(path)].add(place(target))
    return graph


def components(graph):
    """The strongly connected sets of a graph, each behind those that it reaches (Kosaraju)."""
    def visit(edges, node, seen, order):
        stack = [(node, iter(edges[node]))]
        seen.add(node)
        while stack:
            top, rest = stack[-1]
            if (deeper := next((to for to in rest if to not in seen), None)) is None:
                order.append(top)
                stack.pop()
            else:
                seen.add(deeper)
                stack.append((deeper, iter(edges[deeper])))

    order, seen = [], set()
    for node in sorted(graph):
        if node not in seen:
            visit(graph, node, seen, order)
    reverse = {node: set() for node in graph}
    for node, targets in graph.items():
        for target in targets:
            reverse[target].add(node)
    found, seen = [], set()
    for node in reversed(order):
        if node not in seen:
            found.append([])
            visit(reverse, node, seen, found[-1])
    return found[::-1]


def cycles(graph):
    return sorted(sorted(nodes) for nodes in components(graph) if len(nodes) > 1)


def import_findings(paths):
    """Yields (path, text) for each cycle."""
    python = [path for path in paths if path.endswith(".py")]
    cpp = [path for path in paths if path.endswith(CPP) and not path.startswith("tests/")]
    names = {module_of(path): path for path in python + cpp}
    for nodes in cycles(python_imports(python)):
        text = f"a cycle of imports: {', '.join(nodes)}; let one of them get what it needs as an"
        yield names[nodes[0]], f"{text} argument"
    for nodes in cycles(includes(cpp, module_of)):
        if nodes[0] not in KNOWN_CYCLES:
            text = f"a cycle of includes: {', '.join(nodes)}; move what they share"
            yield names[nodes[0]], f"{text} to where it belongs, below all of them"
