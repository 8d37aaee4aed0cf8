#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists the stages of tests/run.sh for a change, from the table of docs/internals/testing.md.

  tests/stages_for.py --for PATH...        prints the stages, in the order of tests/run.sh
  tests/stages_for.py --for-change BASE    of the files that differ from the commit BASE
  tests/stages_for.py --tests-of BASE      a pattern of the GoogleTest tests in files of tests that
                                           differ from BASE; nothing if there are none
  tests/stages_for.py --near NAME          says that there is no such stage, and what is near it

The table's rows are "
`path`, `path`
stages
"; the longest path that is a prefix of a file counts. Exits with 2 if a path or commit does not
exist.
"""
import difflib
import os
import re
import subprocess
import sys

PAGE = "docs/internals/testing.md"
HEADING = "## What you changed, what to run"


def stages():
    with open("tests/run.sh", encoding="utf-8") as file:
        return re.findall(r"^stage_(\w+)\(\)", file.read(), re.MULTILINE)


def rows():
    """The stages by path."""
    with open(PAGE, encoding="utf-8") as file:
        section = file.read().split(HEADING, 1)[1].split("\n## ", 1)[0]
    found = {}
    for row in re.findall(r"^\| (`.*?) \| (.*?) \|$", section, re.MULTILINE):
        for path in re.findall(r"`([^`]+)`", row[0]):
            found[path] = re.findall(r"\w+", row[1])
    return found


def stages_of(paths):
    table, wanted = rows(), set()
    for path in paths:
        places = [place for place in table if (path + "/").startswith(place.rstrip("/") + "/")]
        wanted.update(table[max(places, key=len)] if places else [])
    return [stage for stage in stages() if stage in wanted]


def changed_since(base):
    done = subprocess.run(["git", "diff", "--name-only", base], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    return done.stdout.split("\n")[:-1]


def tests_of(paths):
    """For tests/run_tests.py -R: tests of the programs of the stage dev."""
    folders = re.compile(r"tests/(unit|engine|explorer|abi|bench|golden)/.*_test\.cc$")
    test = re.compile(r"^TEST(?:_[FP])?\((\w+), (\w+)\)", re.MULTILINE)
    names = set()
    for path in paths:
        if folders.match(path) and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                names.update(test.findall(file.read()))
    if not names:
        return ""
    return "(^|/)(" + "|".join(rf"{suite}\.{test}" for suite, test in sorted(names)) + ")(/|$)"


def main():
    how, names = sys.argv[1], sys.argv[2:]
    if how == "--near":
        near = difflib.get_close_matches(names[0], stages(), 3, 0.4) or stages()
        print(f"there is no stage '{names[0]}'; near it: {', '.join(near)}", file=sys.stderr)
        return 2
    if how in ("--for-change", "--tests-of"):
        paths = changed_since(names[0]) if len(names) == 1 else None
        if paths is None:
            print(f"{how} {' '.join(names)}: give one commit that git knows",
                  file=sys.stderr)
            return 2
        if how == "--tests-of":
            print(tests_of(paths))
            return 0
    else:
        paths = [os.path.normpath(name) for name in names]
        missing = [path for path in paths if not os.path.exists(path)]
        if missing or not paths:
            print(f"--for: no such path: {', '.join(missing) or '(none given)'}", file=sys.stderr)
            return 2
    print(*stages_of(paths) or ["dev"])
    return 0


sys.exit(main())
