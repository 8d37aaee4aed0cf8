"""Sizes of classes: one lives in a header and one source, and has at most 30 methods.

Counted are methods that a source defines at the beginning of a line, by the class's name. Classes
that were too large when the rule came are listed with what they had; that may only fall.
"""

import collections
import re

MOST_METHODS = 30
# name: sources, methods
LARGE = {
    "DeviceTeam": (6, 48),
    "Mailbox": (3, 38),
    "HostedRank": (3, 26),
    "SpanningKernels": (2, 19),
}
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
        most_sources, most_methods = LARGE.get(name, (1, MOST_METHODS))
        methods = sum(sources.values())
        first = next(iter(sources))
        if len(sources) > most_sources:
            yield first, f"{name} lives in {len(sources)} sources, at most {most_sources}"
        if methods > max(most_methods, MOST_METHODS):
            yield first, f"{name} has {methods} methods, at most {max(most_methods, MOST_METHODS)}"
