# SPDX-License-Identifier: Apache-2.0
"""Checks sizes of classes: a class lives in a header and one source, and has at most 30 methods.

Counts methods that a source defines at the beginning of a line, by the class's name.
"""

import collections
import re

MAX_METHODS = 30
METHOD = re.compile(
    r"^(?![\s#/])(?:[\w:<>*&,\s\[\]]+?[\s&*])?((?:\w+::)*)(\w+)::~?\w+\([^;{}]*\)[^;{}]*\{", re.M)
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.M)


def methods_by_class(paths):
    """{(namespace, class): {path: methods}}"""
    found = collections.defaultdict(collections.Counter)
    for path in paths:
        if not path.endswith(".cc") or path.startswith("tests/"):
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        namespace = NAMESPACE.search(text)
        for method in METHOD.finditer(text):
            found[namespace.group(1) if namespace else "", method.group(2)][path] += 1
    return found


def class_findings(paths):
    for (_, name), sources in sorted(methods_by_class(paths).items()):
        methods = sum(sources.values())
        first = next(iter(sources))
        if len(sources) > 1:
            yield first, f"{name} lives in {len(sources)} sources, at most 1"
        if methods > MAX_METHODS:
            yield first, f"{name} has {methods} methods, at most {MAX_METHODS}"
