#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds a copy of the tree with all bugs of tests/planted/*.patch; tests must find each bug.

  tests/planted/run.py            all patches
  tests/planted/run.py NAME...    some: those of NAME.patch

A patch begins with lines '# [VAR=VALUE...] TARGET FILTER', each a test program (its name ends with
_tests) and a --gtest_filter, or 'pytest' and a test of tests/torch, then with '# what the bug is'.
Every filter must fail because of this bug, and only because of it. The copy is build/planted/tree,
built once with the preset simt; RONDO_PLANTED=NAME makes a bug active (planted.h). A test that
passes is run again with other seeds. HANGS=SECONDS among the variables: a run that exceeds this
time counts as failed. Without build/torch-venv, which the stage torch makes, patches of pytest are
skipped by name.

Prints one line per patch, then counts. Exits with 1 if a patch no longer applies, a test passes or
matches nothing, or fails without the bug; with 2 for bad input.
"""
import collections
import filecmp
import functools
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time

FOLDER, NEW, TREE = "tests/planted", "build/planted/new", "build/planted/tree"
BUILD = os.path.join(TREE, "build/simt")
PYTHON = "build/torch-venv/bin/python"
TARGETS = {"pytest": "rondo_shared"}  # what the tests of a header need, if not its own name
INCLUDE = '#include "tests/planted/planted.h"\n'
SOURCES = (".cc", ".h", ".cu", ".c")
IN_PYTHON = """

def planted(name):
    return name in __import__("os").environ.get("RONDO_PLANTED", "").split(",")
"""
HEADER = re.compile(r"# ((?:[A-Z_]+=\S+ )*)(\w+_tests|pytest) (\S+)\n")
SECONDS = 300  # per run, unless the patch sets it
SEEDS = 5


def refuse(text):
    print(f"planted: {text}", file=sys.stderr)
    sys.exit(2)


# variables: pairs of a name and a value.
Test = collections.namedtuple("Test", "target filter variables hangs")


class Patch:
    def __init__(self, path):
        self.path, self.name = path, os.path.splitext(os.path.basename(path))[0]
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.tests, at = [], 0
        while header := HEADER.match(text, at):
            variables = dict(word.split("=", 1) for word in header[1].split())
            hangs = float(variables.pop("HANGS", 0))
            self.tests.append(Test(header[2], header[3], tuple(variables.items()), hangs))
            at = header.end()
        self.needs_torch = any(test.target == "pytest" for test in self.tests)
        if not self.tests or not re.match("# .", text[at:]):
            refuse(f"{path} does not begin with '# [VAR=VALUE...] TARGET FILTER', '# what it is'")
        if f'planted("{self.name}")' not in text:
            refuse(f'{path} does not ask planted("{self.name}")')
        self.files = re.findall(r"^\+\+\+ b/(\S+)", text, re.MULTILINE)

    def apply(self):
        """The reason why `patch` does not apply, or None."""
        command = ["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch", "--forward", "-d",
                   NEW, "-i", os.path.abspath(self.path)]
        for options in (["--dry-run"], []):
            done = subprocess.run(command + options, capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL)
            if done.returncode != 0:
                failed = re.findall(r".*(?:FAILED|find|previously|malformed).*", done.stdout)
                return (failed or [done.stdout + done.stderr])[0].strip()
        return None


def make_copy(patches):
    """The names of patches that do not apply, with the reason. Unchanged files keep their time
    stamps, so a second build is fast."""
    shutil.rmtree(NEW, ignore_errors=True)
    listing = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True)
    for path in filter(os.path.lexists, listing.stdout.split("\0")[:-1]):
        os.makedirs(os.path.dirname(os.path.join(NEW, path)), exist_ok=True)
        shutil.copy2(path, os.path.join(NEW, path), follow_symlinks=False)
    refused, touched = {}, set()
    for patch in patches:
        why = patch.apply()
        if why is not None:
            refused[patch.name] = why
        else:
            touched.update(patch.files)
    for path in (os.path.join(NEW, file) for file in touched):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if path.endswith(SOURCES):
            text = INCLUDE + text
        elif path.endswith(".py"):  # its first lines may be those that Python wants first
            text += IN_PYTHON
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    replace(NEW, TREE)
    return refused


def files_below(root):
    for folder, folders, names in os.walk(root):
        if folder == root and "build" in folders:
            folders.remove("build")
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), root)


def replace(new, old):
    wanted = set(files_below(new))
    for path in set(files_below(old)) - wanted:
        os.remove(os.path.join(old, path))
    for path in wanted:
        source, target = os.path.join(new, path), os.path.join(old, path)
        if os.path.exists(target) and filecmp.cmp(source, target, shallow=False):
            continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
        if not os.path.islink(target):
            os.utime(target)
    shutil.rmtree(new)


def build(targets):
    if not targets:
        return
    environment = dict(os.environ, CCACHE_BASEDIR=os.path.abspath(TREE), CCACHE_NOHASHDIR="1")
    for command in (["cmake", "--preset", "simt"],
                    ["cmake", "--build", "--preset", "simt", "--target", *targets]):
        done = subprocess.run(command, cwd=TREE, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            errors = re.findall(r".*(?:error|FAILED).*", done.stdout)
            sys.exit("\n".join(errors[:20] or done.stdout.split("\n")[-40:]))


def run(test, seconds, **variables):
    """The exit status (None if it exceeded its time) and the output."""
    environment = os.environ | variables | dict(test.variables)
    if not variables:
        environment.pop("RONDO_PLANTED", None)
    if test.target == "pytest":
        folder = TREE
        environment |= {"PYTHONPATH": os.path.abspath(f"{TREE}/api/torch"),
                        "RONDO_LIBRARY": os.path.abspath(f"{BUILD}/lib/librondo.so.1")}
        command = [os.path.abspath(PYTHON), "-m", "pytest", "-q", "-p", "no:cacheprovider",
                   test.filter]
    else:
        folder = BUILD
        command = [os.path.abspath(f"{BUILD}/bin/{test.target}"), f"--gtest_filter={test.filter}"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, start_new_session=True, text=True,
                          errors="replace") as process:
        try:
            output, _ = process.communicate(timeout=seconds)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]


@functools.cache
def wrong_without(test):
    """The error of a test while no bug is active."""
    status, output = run(test, SECONDS)
    if status is None:
        return f"{test.filter} is not over in {SECONDS} s, without the bug"
    if status != 0:
        return f"{test.filter} fails without the bug:\n{output[-2000:]}"
    if not re.search(r"\[  PASSED  \] [1-9]|^[1-9]\d* passed", output, re.MULTILINE):
        return f"{test.target} has no test {test.filter} that runs"
    return None


def finds(test, name):
    """True if the test fails, and the message to print."""
    if wrong := wrong_without(test):
        return False, wrong
    for seed in range(1, SEEDS + 1):
        seeds = {"RONDO_TEST_SEED": str(seed), "RONDO_SIMT_SEED": str(seed)} if seed > 1 else {}
        status, _ = run(test, test.hangs or SECONDS, RONDO_PLANTED=name, **seeds)
        if status is None and not test.hangs:
            return False, f"{test.filter} is not over in {SECONDS} s"
        if status != 0:
            return True, test.filter + (f" (try {seed})" if seed > 1 else "")
    return False, f"{test.target} {test.filter} stays green"


def check(patch):
    lines = []
    for test in patch.tests:
        found, text = finds(test, patch.name)
        if not found:
            return False, text
        lines.append(text)
    return True, ", ".join(lines)


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    if shutil.which("patch") is None:
        refuse("there is no program 'patch': install the package of that name")
    patches = [Patch(path) for path in sorted(glob.glob(f"{FOLDER}/*.patch"))]
    unknown = set(sys.argv[1:]) - {patch.name for patch in patches}
    if unknown:
        refuse(f"there is no {FOLDER}/{sorted(unknown)[0]}.patch")
    chosen = [patch for patch in patches if not sys.argv[1:] or patch.name in sys.argv[1:]]
    refused = make_copy(patches)
    begun = time.monotonic()
    skipped = [patch for patch in chosen if patch.needs_torch and not os.path.exists(PYTHON)]
    chosen = [patch for patch in chosen if patch not in skipped]
    build(sorted({TARGETS.get(test.target, test.target)
                  for patch in chosen for test in patch.tests}))
    print(f"built in {time.monotonic() - begun:.0f} s", flush=True)
    begun = time.monotonic()
    failed = 0
    for patch in chosen:
        if patch.name in refused:
            found, text = False, f"no longer applies: {refused[patch.name]}"
        else:
            found, text = check(patch)
        print(f"{patch.name}: {'found' if found else 'NOT FOUND'}: {text}", flush=True)
        failed += not found
    for patch in skipped:
        print(f"{patch.name}: skipped: no {PYTHON}, which bash tests/run.sh torch makes")
    print(f"planted: {len(chosen)} bugs, {len(chosen) - failed} found, {failed} not; "
          f"{time.monotonic() - begun:.0f} s of tests")
    if counts := os.environ.get("RONDO_TEST_COUNTS"):
        with open(counts, "a", encoding="utf-8") as file:
            file.write(f"{len(chosen) - failed} {failed} {len(skipped)}\n")
    return 1 if failed else 0


sys.exit(main())
