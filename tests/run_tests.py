#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests that CTest lists for a build; tests of one GoogleTest program share processes.

  tests/run_tests.py BUILD [-R REGEX] [-E REGEX] [-j JOBS] [--batch TESTS] [--flaky FILE]
  tests/run_tests.py BUILD -R REGEX --repeat N      N times, as on a busy machine (starvation.py)

One process per test would start 1,900 processes for the stage dev: half of its time. So up to 24
tests of a program share a process. A test that crashes or exceeds its time ends only its process:
the tests after it run in a new one. If a process fails although all of its tests passed (a
sanitizer's report), each of them runs again in a separate process. Tests with the label own_process
always have one. Tests that CTest runs alone (RUN_SERIAL) do so here, one per process, after all
others.

With --flaky, a failed test (a crash and an exceeded time are failures, too) runs again at the end,
alone, three times. If it passes each time it is flaky: it counts as passed, and FILE keeps its name
(flaky.py). Otherwise it has failed.

Prints each failure as it happens, then 'N passed, N failed, N skipped' with the reasons for skipped
tests, and 'N flaky' if there are some. Exits with 1 if a test failed, with 2 if no test matches.
"""
import argparse
import collections
import difflib
import json
import os
import queue
import re
import selectors
import signal
import subprocess
import sys
import threading
import time

import flaky
from starvation import Starvation

BATCH = 24
DEFAULT_SECONDS = 1500  # CTest's default
BEGIN = re.compile(r"\[ RUN      \] (\S+)")
END = re.compile(r"\[(       OK |  FAILED  |  SKIPPED )\] (\S+?)(?:, where .*)? \(\d+ ms\)")
COUNTS = os.environ.get("RONDO_TEST_COUNTS")
EVENTS_EVERY = 30.0  # seconds between progress lines


class Test:
    def __init__(self, entry):
        properties = {p["name"]: p["value"] for p in entry.get("properties", [])}
        self.name, self.command = entry["name"], entry.get("command", [])
        self.folder = properties.get("WORKING_DIRECTORY")
        self.seconds = properties.get("TIMEOUT", DEFAULT_SECONDS)
        self.environment = tuple(properties.get("ENVIRONMENT", []))
        self.alone = properties.get("RUN_SERIAL", False)
        self.skip_code = properties.get("SKIP_RETURN_CODE")
        self.skip_text = re.compile("|".join(properties.get("SKIP_REGULAR_EXPRESSION", ["(?!)"])))
        filters = [w for w in self.command[1:] if w.startswith("--gtest_filter=")]
        one = len(filters) == 1 and not re.search(r"[*?:]", filters[0].split("=", 1)[1])
        shares = one and "own_process" not in properties.get("LABELS", [])
        self.filter = filters[0].split("=", 1)[1] if shares else None

    def kind(self):
        """Key of tests that can share a process."""
        return self.command[0], self.folder, self.environment


class Outcome:
    """passed, failed, skipped or flaky; the text gives the reason if it has not passed. Of many: a
    process with several tests failed, and no test of it alone."""

    def __init__(self, test, verdict, seconds, text="", of_many=False):
        self.test, self.verdict, self.seconds, self.text = test, verdict, seconds, text
        self.of_many = of_many


class Process:
    """A program whose output lines are read as they arrive; each read has a deadline."""

    def __init__(self, command, test):
        environment = dict(os.environ, **dict(e.split("=", 1) for e in test.environment))
        self.process = subprocess.Popen(command, cwd=test.folder, env=environment,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, start_new_session=True)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.rest = b""

    def lines(self, deadline):
        """The lines until the output ends; calls deadline() before each read. None: the deadline
        has passed."""
        descriptor = self.process.stdout.fileno()
        while True:
            left = deadline() - time.monotonic()
            if left <= 0 or not self.selector.select(left):
                yield None
                return
            data = os.read(descriptor, 1 << 16)
            if not data:
                break
            *whole, self.rest = (self.rest + data).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace")
        if self.rest:
            yield self.rest.decode(errors="replace")

    def end(self):
        """Waits for the program, then kills what it left running in its session."""
        try:
            status = self.process.wait(300)
        except subprocess.TimeoutExpired:
            status = None
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdout.close()
        return status


def run_script(test):
    """Runs one test that is no single GoogleTest test."""
    begun = time.monotonic()
    if not test.command:
        return Outcome(test, "failed", 0, "CTest knows no command: was the program built?")
    process, text, late = Process(test.command, test), [], False
    for line in process.lines(lambda: begun + test.seconds):
        if line is None:
            late = True
            os.killpg(process.process.pid, signal.SIGKILL)
            break
        text.append(line)
    status = process.end()
    seconds = time.monotonic() - begun
    if late:
        text.append(f"killed after {test.seconds:.0f} s")
    if status == test.skip_code is not None and not late:
        return Outcome(test, "skipped", seconds, text[-1] if text else "")
    if status == 0 and not late:
        reasons = [before for before, line in zip(["", *text], text) if test.skip_text.search(line)]
        return Outcome(test, "skipped" if reasons else "passed", seconds, *reasons[:1])
    return Outcome(test, "failed", seconds, "\n".join([*text, f"exit status {status}"]))


def run_batch(tests):
    """Runs tests of one program in one process. Returns the outcome of each that started, and the
    rest."""
    by_filter = {test.filter: test for test in tests}
    program = tests[0].command[0]
    process = Process([program, f"--gtest_filter={':'.join(by_filter)}", "--gtest_color=no",
                       "--gtest_also_run_disabled_tests"], tests[0])
    outcomes, current, text = [], None, []
    begun = time.monotonic()

    def deadline():
        return begun + (current.seconds if current else min(t.seconds for t in tests))

    def finish(verdict, lines):
        outcomes.append(Outcome(current, verdict, time.monotonic() - begun, "\n".join(lines)))

    for line in process.lines(deadline):
        if line is None:
            os.killpg(process.process.pid, signal.SIGKILL)
            text.append(f"killed after {time.monotonic() - begun:.0f} s")
            break
        text.append(line)
        if (match := BEGIN.search(line)) and match.group(1) in by_filter and current is None:
            current, text, begun = by_filter[match.group(1)], [line], time.monotonic()
        elif (match := END.search(line)) and current and match.group(2) == current.filter:
            verdict = {"F": "failed", "O": "passed", "S": "skipped"}[match.group(1).strip()[0]]
            finish(verdict, text if verdict == "failed" else text[-2:-1])
            current, text, begun = None, [], time.monotonic()
    status = process.end()
    if current:
        finish("failed", [*text, f"exit status {status}"])
    done = {outcome.test for outcome in outcomes}
    left = [test for test in tests if test not in done]
    failed = any(outcome.verdict == "failed" for outcome in outcomes)
    if status != 0 and not failed:  # none of the results can be trusted
        if len(tests) == 1:
            return [Outcome(tests[0], "failed", time.monotonic() - begun,
                            "\n".join([*text, f"exit status {status}"]))], []
        again = [run_batch([test])[0][0] for test in tests]
        if all(outcome.verdict != "failed" for outcome in again):
            names = ", ".join(test.name for test in tests)
            again[0] = Outcome(tests[0], "failed", 0, "\n".join(
                [*text, f"exit status {status} of one process with the tests {names}; each by "
                 "itself passes"]), True)
        return again, []
    if left and not outcomes:
        outcomes = [Outcome(left[0], "failed", 0, "\n".join([*text, f"exit status {status}"]))]
        left = left[1:]
    return outcomes, left


def run_alone(test):
    return run_script(test) if test.filter is None else run_batch([test])[0][0]


class Report:
    def __init__(self, total):
        self.total, self.outcomes, self.lock = total, [], threading.Lock()
        self.begun = self.printed_at = time.monotonic()

    def add(self, outcome):
        with self.lock:
            self.outcomes.append(outcome)
            failed = outcome.verdict == "failed"
            if failed:
                print(f"\n==== failed: {outcome.test.name}\n{outcome.text}\n====", flush=True)
            now = time.monotonic()
            if failed or now - self.printed_at >= EVENTS_EVERY:
                self.printed_at = now
                count = sum(o.verdict == "failed" for o in self.outcomes)
                print(f"[{len(self.outcomes)}/{self.total}] {count} failed, "
                      f"{now - self.begun:.0f} s", flush=True)

    def run_failed_again(self, file):
        """What then passes three times is flaky."""
        failed = [outcome for outcome in self.outcomes if outcome.verdict == "failed"]
        if not flaky.may_be([outcome.text for outcome in failed]):
            return
        for outcome in failed:
            if outcome.of_many:
                continue
            print(f"again, alone: {outcome.test.name}", flush=True)
            if flaky.passes_again(lambda: run_alone(outcome.test).verdict == "passed"):
                outcome.verdict = "flaky"
                flaky.keep(outcome.test.name, outcome.text, file)

    def conclude(self, slowest):
        count = collections.Counter(outcome.verdict for outcome in self.outcomes)
        reasons = collections.Counter(
            outcome.text for outcome in self.outcomes if outcome.verdict == "skipped")
        for outcome in sorted(self.outcomes, key=lambda o: -o.seconds)[:slowest]:
            print(f"{outcome.seconds:7.1f} s  {outcome.test.name}")
        for reason, times in reasons.most_common():
            print(f"skipped, {times}: {reason or 'no reason given'}")
        for outcome in self.outcomes:
            if outcome.verdict in ("failed", "flaky"):
                print(f"{outcome.verdict}: {outcome.test.name}")
        counts = [count["passed"] + count["flaky"], count["failed"], count["skipped"]]
        print("{} passed, {} failed, {} skipped".format(*counts))
        if count["flaky"]:
            print(f"{count['flaky']} flaky")
        if COUNTS:  # of tests/run.sh, which adds up all stages
            with open(COUNTS, "a", encoding="utf-8") as file:
                print(*counts, file=file)
        return count["failed"] == 0


def run_all(tests, jobs, slowest, batch_size=BATCH, flaky_file=None):
    report, work = Report(len(tests)), queue.Queue()
    kinds = collections.defaultdict(list)
    for test in tests:
        if not test.alone:
            kinds[test.kind() if test.filter else test.name].append(test)
    # Scripts first, as they take longest. Then programs in turn, so that their long tests overlap.
    batches = [group[i:i + batch_size] for group in kinds.values()
               for i in range(0, len(group), batch_size)]
    for batch in sorted(batches, key=lambda b: b[0].filter is not None):
        work.put(batch)

    def carry_out(batch):
        if batch[0].filter is None:
            report.add(run_script(batch[0]))
            return
        while batch:
            outcomes, batch = run_batch(batch)
            for outcome in outcomes:
                report.add(outcome)

    def worker():
        while True:
            try:
                batch = work.get_nowait()
            except queue.Empty:
                return
            carry_out(batch)

    workers = [threading.Thread(target=worker) for _ in range(jobs)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    for test in tests:
        if test.alone:
            carry_out([test])
    if flaky_file:
        report.run_failed_again(flaky_file)
    return report.conclude(slowest)


def repeat_in_starvation(tests, times):
    with Starvation(os.getpid()):
        failures = sum(not run_all(tests, 1, 0) for _ in range(times))
    print(f"{failures} of {times} runs failed")
    return failures == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("-R", dest="wanted", default="", help="tests whose names match")
    parser.add_argument("-E", dest="left_out", help="and these do not")
    parser.add_argument("-j", dest="jobs", type=int, default=3, help="processes at once (3)")
    parser.add_argument("--batch", type=int, default=BATCH, help=f"tests to a process ({BATCH})")
    parser.add_argument("--repeat", type=int, help="how often, as on a busy machine")
    parser.add_argument("--flaky", metavar="FILE",
                        help="run failed tests again, and keep in FILE those that then pass")
    parser.add_argument("--slowest", type=int, default=0, help="how many slow tests to show (0)")
    wishes = parser.parse_args()
    # A background job ignores the first two, nohup the third.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    listing = subprocess.run(["ctest", "--test-dir", wishes.build, "--show-only=json-v1"],
                             check=True, capture_output=True, text=True)
    known = [Test(entry) for entry in json.loads(listing.stdout)["tests"]]
    tests = [test for test in known if re.search(wishes.wanted, test.name)
             and not (wishes.left_out and re.search(wishes.left_out, test.name))]
    if not tests:
        near = difflib.get_close_matches(wishes.wanted, [test.name for test in known], 3, 0.3)
        print(f"{wishes.build} has no test that matches '{wishes.wanted}'"
              + (f"; near it: {', '.join(near)}" if near else ""), file=sys.stderr)
        return 2
    passed = (repeat_in_starvation(tests, wishes.repeat) if wishes.repeat
              else run_all(tests, wishes.jobs, wishes.slowest, wishes.batch, wishes.flaky))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
