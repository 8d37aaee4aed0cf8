#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the ```bash blocks of pages, in order, each in a separate shell in the top folder.

  .ci/readme.py [PAGE ...]     README.md without a name; .ci/run gives all pages in one call

A block whose text has run on an earlier page does not run again. A block that failed does, three
times: if it passes each time it is flaky (tests/flaky.py). A comment on the line before a
block, which is invisible on the page, says where it runs:
  <!-- needs PROGRAM -->      only where there is this program
  <!-- needs namespaces -->   only where network namespaces can be made: by root, in few containers
  <!-- run by COMMAND -->     not here: COMMAND, a line of .ci/run, runs it

Blocks find the programs of the preset release by name: the first block of a page that names one
puts them into PATH, and a reader has one shell. Shells have no other name on a page, so that none
is left out: fails on ```sh, ```shell, ```console.
"""
import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, "tests")
import flaky  # noqa: E402

LIMIT_SECONDS = 900
PROGRAMS = "build/release/bin"
BLOCK = re.compile(r"^(?:<!-- ([^\n]*) -->\n)?```(bash|sh|shell|console)\n(.*?)^```",
                   re.MULTILINE | re.DOTALL)


def has_namespaces():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"rondo-try-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return False
    subprocess.run(["ip", "netns", "del", name], check=False)
    return True


def why_not(comment, known, commands):
    """The reason why a block does not run here; None if it does. Fails on a comment that it cannot
    parse."""
    if known:
        return "it has run before"
    if not comment:
        return None
    what, _, which = comment.partition(" ")
    if comment == "needs namespaces":
        return None if has_namespaces() else "no network namespaces here"
    if what == "needs":
        return None if shutil.which(which) else f"there is no {which}"
    if comment.startswith("run by ") and comment[len("run by "):] in commands:
        return f"{comment[len('run by '):]} of .ci/run runs it"
    raise SystemExit(f"'{comment}' before a block: needs PROGRAM, needs namespaces, or run by a "
                     "line of .ci/run")


def status_of(block):
    """Runs it; ends what it has left in the background."""
    environment = os.environ | {"PATH": f"{os.path.abspath(PROGRAMS)}:{os.environ['PATH']}"}
    shell = subprocess.Popen(["bash", "-euo", "pipefail", "-c", block], start_new_session=True,
                             env=environment)
    try:
        return shell.wait(LIMIT_SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def run_page(page, seen, commands):
    with open(page, encoding="utf-8") as file:
        blocks = BLOCK.findall(file.read())
    ran = 0
    for comment, shell, block in blocks:
        if shell != "bash":
            raise SystemExit(f"{page}: a block of {shell}: say bash, and it runs here\n{block}")
        reason = why_not(comment, block in seen, commands)
        seen.add(block)
        if reason:
            print(f"--- {page}: not run, {reason}: {block.strip()}", flush=True)
            continue
        print(f"--- {page}: {block.strip()}", flush=True)
        begin = time.monotonic()
        status = status_of(block)
        if status != 0 and flaky.passes_again(lambda: status_of(block) == 0):
            flaky.keep(f"{page}: {block.strip().splitlines()[-1]}", "")
        elif status != 0:
            raise SystemExit(f"{page}: a block failed with status {status}:\n{block}")
        print(f"--- took {time.monotonic() - begin:.0f} s", flush=True)
        ran += 1
    print(f"{page}: {ran} of {len(blocks)} blocks ran", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("pages", nargs="*", default=["README.md"])
    with open(".ci/run", encoding="utf-8") as file:
        commands = file.read().split("\n")
    seen = set()
    for page in parser.parse_args().pages:
        run_page(page, seen, commands)


if __name__ == "__main__":
    sys.exit(main())
