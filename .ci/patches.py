# SPDX-License-Identifier: Apache-2.0
"""Checks of tests/planted without a build: each patch applies, and its tests exist.

The stage `planted` proves that the tests find the bugs; it takes long and runs by name only.
"""
import glob
import os
import re
import subprocess

# A line '# [VAR=VALUE...] TARGET FILTER' at the beginning of a patch (tests/planted/run.py).
TESTS = re.compile(r"^# (?:[A-Z_]+=\S+ )*\w+_tests (\S+)$", re.MULTILINE)
IN_PYTHON = re.compile(r"^# (?:[A-Z_]+=\S+ )*pytest (\S+?)::(\w+)\S*$", re.MULTILINE)
NAME = re.compile(r"(?:\w+/)?(\w+)\.(\w+)(?:/\w+)?")


def patch_findings(sources):
    """Yields (path, text). `sources`: paths of all C++ files."""
    texts = []
    for path in sources:
        if path.startswith("tests/"):
            with open(path, encoding="utf-8") as file:
                texts.append(file.read())
    tests = set(re.findall(r"^\w*TEST(?:_\w+)?\((\w+),\s*(\w+)\)", "\n".join(texts), re.MULTILINE))
    for path in sorted(glob.glob("tests/planted/*.patch")):
        done = subprocess.run(["git", "apply", "--check", path], capture_output=True, text=True)
        if done.returncode != 0:
            yield path, done.stderr.strip().split("\n")[0]
        with open(path, encoding="utf-8") as file:
            patch = file.read()
        filters = TESTS.findall(patch)
        for name in ":".join(filters).split(":"):
            if (parts := NAME.fullmatch(name)) and parts.groups() not in tests:
                yield path, f"there is no test {name}"
        for test in IN_PYTHON.findall(patch):
            if not is_in_python(*test):
                yield path, f"there is no test {'::'.join(test)}"


def is_in_python(path, name):
    if not os.path.exists(path):
        return False
    with open(path, encoding="utf-8") as file:
        return f"\ndef {name}(" in file.read()
