#!/usr/bin/env python3
"""Builds a copy of the tree with all bugs of tests/planted/*.patch, and sees that tests find each.

  tests/planted/run.py            all patches
  tests/planted/run.py NAME...    some: those of NAME.patch

A patch begins with '# [VAR=VALUE...] TARGET FILTER': the test program and the --gtest_filter that
the bug, and it alone, must turn red; then with what the bug is. The copy is build/planted/tree,
built once by the preset simt; RONDO_PLANTED=NAME makes one bug active (planted.h). Tests whose
order is left to chance get several seeds. HANGS=SECONDS among the variables: the test may also turn
red by not being over after so long.

Prints a line a patch, then counts. Exits with 1 where a patch no longer applies, its test stays
green or matches nothing, or fails without the bug; 2 for bad input.
"""
import filecmp
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
INCLUDE = '#include "tests/planted/planted.h"\n'
SOURCES = (".cc", ".h", ".cu", ".c")
HEADER = re.compile(r"# ((?:[A-Z_]+=\S+ )*)(\w+) (\S+)\n# \S")
SECONDS = 300  # for a run, where the patch says nothing
SEEDS = 5


def refuse(text):
    print(f"planted: {text}", file=sys.stderr)
    sys.exit(2)


class Patch:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        header = HEADER.match(text)
        if header is None:
            refuse(f"{path} does not begin with '# [VAR=VALUE...] TARGET FILTER' and '# what it is'")
        self.path, self.name = path, os.path.splitext(os.path.basename(path))[0]
        self.environment = dict(word.split("=", 1) for word in header[1].split())
        self.hangs = float(self.environment.pop("HANGS", 0))
        self.target, self.filter = header[2], header[3]
        self.files = re.findall(r"^\+\+\+ b/(\S+)", text, re.MULTILINE)
        if f'planted("{self.name}")' not in text:
            refuse(f'{path} does not ask planted("{self.name}")')

    def apply(self):
        """What `patch` says against it, or None."""
        command = ["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch", "--batch", "-d", NEW,
                   "-i", os.path.abspath(self.path)]
        for options in (["--dry-run"], []):
            done = subprocess.run(command + options, capture_output=True, text=True)
            if done.returncode != 0:
                failed = re.findall(r".*(?:FAILED|find|previously|malformed).*", done.stdout)
                return (failed or [done.stdout + done.stderr])[0].strip()
        return None


def make_copy(patches):
    """The names of patches that do not apply, with why. Files that stay the same keep their time, so
    that a second build is quick."""
    shutil.rmtree(NEW, ignore_errors=True)
    listing = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True)
    for path in filter(os.path.lexists, listing.stdout.split("\n")[:-1]):
        os.makedirs(os.path.dirname(os.path.join(NEW, path)), exist_ok=True)
        shutil.copy2(path, os.path.join(NEW, path), follow_symlinks=False)
    refused, touched = {}, set()
    for patch in patches:
        why = patch.apply()
        if why is not None:
            refused[patch.name] = why
        else:
            touched.update(patch.files)
    for path in (os.path.join(NEW, file) for file in touched if file.endswith(SOURCES)):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(INCLUDE + text)
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
    environment = dict(os.environ, CCACHE_BASEDIR=os.path.abspath(TREE), CCACHE_NOHASHDIR="1")
    for command in (["cmake", "--preset", "simt"],
                    ["cmake", "--build", "--preset", "simt", "--target", *targets]):
        done = subprocess.run(command, cwd=TREE, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            errors = re.findall(r".*(?:error|FAILED).*", done.stdout)
            sys.exit("\n".join(errors[:20] or done.stdout.split("\n")[-40:]))


def run(patch, seconds, **variables):
    """The exit status, None where it was not over in time; and the output."""
    environment = {name: value for name, value in os.environ.items() if name != "RONDO_PLANTED"}
    environment.update(patch.environment, **variables)
    command = [os.path.abspath(f"{BUILD}/bin/{patch.target}"), f"--gtest_filter={patch.filter}"]
    with subprocess.Popen(command, cwd=BUILD, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, start_new_session=True, text=True,
                          errors="replace") as process:
        try:
            output, _ = process.communicate(timeout=seconds)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]


def judge(patch):
    """Whether the test finds the bug, and what is to be said."""
    status, output = run(patch, SECONDS)
    if status is None:
        return False, f"{patch.filter} is not over in {SECONDS} s, without the bug"
    if status != 0:
        return False, f"{patch.filter} fails without the bug:\n{output[-2000:]}"
    if re.search(r"\[  PASSED  \] 0 tests", output):
        return False, f"{patch.target} has no test {patch.filter} that runs"
    begun = time.monotonic()
    for seed in range(1, SEEDS + 1):
        seeds = {"RONDO_TEST_SEED": str(seed), "RONDO_SIMT_SEED": str(seed)} if seed > 1 else {}
        status, output = run(patch, patch.hangs or SECONDS, RONDO_PLANTED=patch.name, **seeds)
        if status is None and patch.hangs == 0:
            return False, f"{patch.filter} is not over in {SECONDS} s"
        if status == 0:
            continue
        how = "not over in time" if status is None else f"{patch.target} {patch.filter}"
        tries = f", {seed} tries" if seed > 1 else ""
        return True, f"{how}, {time.monotonic() - begun:.1f} s{tries}"
    return False, f"{patch.target} {patch.filter} stays green"


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
    build(sorted({patch.target for patch in chosen}))
    print(f"built in {time.monotonic() - begun:.0f} s", flush=True)
    failed = 0
    for patch in chosen:
        if patch.name in refused:
            found, text = False, f"no longer applies: {refused[patch.name]}"
        else:
            found, text = judge(patch)
        print(f"{patch.name}: {'found' if found else 'NOT FOUND'}: {text}", flush=True)
        failed += not found
    print(f"planted: {len(chosen)} bugs, {len(chosen) - failed} found, {failed} not")
    if counts := os.environ.get("RONDO_TEST_COUNTS"):
        with open(counts, "a", encoding="utf-8") as file:
            file.write(f"{len(chosen) - failed} {failed} 0\n")
    return 1 if failed else 0


sys.exit(main())
