#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs pytest and appends its counts to RONDO_TEST_COUNTS, as tests/run_tests.py does.

  tests/run_pytest.py PYTHON [--flaky FILE] ARGUMENTS...

With --flaky, a failed test runs again at the end, alone, three times. If it passes each time it is
flaky: it counts as passed, and FILE keeps its name (flaky.py). Exits with pytest's status, with 0
if all that failed was flaky.
"""
import os
import re
import signal
import subprocess
import sys

import flaky

SOME_FAILED = 1  # pytest's status


def pytest(python, arguments):
    """Prints the output as it comes. Returns the status and the output."""
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rfE", *arguments]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return process.returncode, "".join(lines)


def is_flaky(python, options, test, output, file):
    print(f"again, alone: {test}", flush=True)
    if not flaky.passes_again(lambda: pytest(python, [*options, test])[0] == 0):
        return False
    flaky.keep(test, output, file)
    return True


def main():
    # A background job ignores the first two, nohup the third; tests of Ctrl-C would wait.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    python, *arguments = sys.argv[1:]
    file = None
    if arguments[0] == "--flaky":
        _, file, *arguments = arguments
    status, output = pytest(python, arguments)
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", output, re.MULTILINE)
    unlucky = []
    if file and status == SOME_FAILED and failed and flaky.may_be([output] * len(failed)):
        options = [word for word in arguments if word.startswith("-")]
        unlucky = [test for test in failed if is_flaky(python, options, test, output, file)]
    counts = {word: sum(map(int, re.findall(rf"(\d+) {word}", output.rstrip().split("\n")[-1])))
              for word in ("passed", "failed", "skipped", "error")}
    counts["passed"] += len(unlucky)
    counts["failed"] += counts["error"] - len(unlucky)
    for test in unlucky:
        print(f"flaky: {test}")
    if path := os.environ.get("RONDO_TEST_COUNTS"):
        with open(path, "a", encoding="utf-8") as out:
            print(counts["passed"], counts["failed"], counts["skipped"], file=out)
    return 0 if status == SOME_FAILED and counts["failed"] == 0 else status


if __name__ == "__main__":
    sys.exit(main())
