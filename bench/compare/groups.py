# SPDX-License-Identifier: Apache-2.0
"""The contestants: groups of ranks that sleep on pipes until they get a request to measure.

Every group is started once per number of ranks. They are measured in turn, within milliseconds of
each other. See loop.h for the lines that are exchanged.
"""
import contextlib
import os
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time

from contestants import RONDO, command_of, version_in

PATIENCE = 120.0  # seconds to wait for any answer

MEETING_BYTES = 4 << 20  # meeting.h: struct Shared
MIN_CALLS, MAX_CALLS = 11, 2000  # one at a time; meeting.h: kMaxCalls
SHARED_MEMORY = "/dev/shm"


class ContestantFailed(Exception):
    """A group did not start, died, or gave a wrong result; the text says which and why."""


class NoAnswer(ContestantFailed):
    """A group did not answer in time: it hangs, or its call takes longer than anyone would wait."""


class Group:
    def __init__(self, name, ranks, build, bound=True):
        self.name, self.ranks, self.build, self.bound = name, ranks, build, bound
        self.folder = tempfile.mkdtemp(
            prefix=f"rondo-compare-{name}-",
            dir=SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None)
        self.patience = PATIENCE
        self.estimates = {}  # (prefix, operation, bytes) -> seconds per call
        self.costs = {}      # (condition, operation, bytes) -> wall seconds per call
        with open(f"{self.folder}/meeting", "wb") as file:
            file.write(struct.pack("=Q", len(os.sched_getaffinity(0))))
            file.truncate(MEETING_BYTES)
        if not bound:
            open(f"{self.folder}/unbound", "w", encoding="utf-8").close()
        pipes = []
        for r in range(ranks):
            for way in ("in", "out"):
                path = f"{self.folder}/{way}.{r}"
                os.mkfifo(path)
                # Opened for reading and writing, so that neither side waits for the other's open.
                pipes.append(os.open(path, os.O_RDWR | os.O_CLOEXEC))
        self.inputs, self.outputs = pipes[0::2], pipes[1::2]
        self.log = open(f"{self.folder}/log", "w+", encoding="utf-8")
        self.launcher = subprocess.Popen(
            self.command(), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            start_new_session=True)
        try:
            self.answers()
            self.joined = self.ask("join") if name in RONDO else []
        except BaseException:  # also if it is told to end
            self.close()
            raise

    def command(self):
        return command_of(self.name, self.ranks, self.folder, self.build, self.bound)

    def version(self):
        """What the library itself says; "" if it says nothing."""
        try:
            with open(f"{self.folder}/version", encoding="utf-8") as file:
                return version_in(file.read())
        except FileNotFoundError:
            return ""

    def ask(self, line):
        for pipe in self.inputs:
            os.write(pipe, (line + "\n").encode())
        return self.answers()

    def answers(self):
        """One line from every rank; a list of numbers each, without the leading word."""
        lines = [b""] * self.ranks
        waiting = {pipe: r for r, pipe in enumerate(self.outputs)}
        until = time.monotonic() + self.patience
        while waiting:
            ready, _, _ = select.select(list(waiting), [], [], 0.5)
            for pipe in ready:
                r = waiting[pipe]
                lines[r] += os.read(pipe, 65536)
                if lines[r].endswith(b"\n"):
                    del waiting[pipe]
            if not ready and self.launcher.poll() is not None:
                raise ContestantFailed(f"{self.name} on {self.ranks} ranks: {self.last_words()}")
            if time.monotonic() > until:
                raise NoAnswer(f"{self.name} on {self.ranks} ranks: no answer in "
                               f"{self.patience:.0f} s. {self.last_words()}")
        texts = [line.decode().strip() for line in lines]
        for text in texts:
            if text.startswith("error"):
                raise ContestantFailed(f"{self.name} on {self.ranks} ranks: {text}")
        return [[float(word) for word in text.split()[1:]] for text in texts]

    def measure(self, operation, size, budget, prefix="", calls=None):
        """Median over the blocks of the slowest rank, in seconds per call; takes about `budget`
        seconds."""
        key = (prefix, operation, size)
        if key not in self.estimates:
            self.estimates[key] = self.first_estimate(f"{prefix}{operation} {size}", budget)
        total = min(max(int(budget / max(self.estimates[key], 1e-8)), 3), 2000000)
        blocks = min(total, 15)
        per_block = calls or max(total // blocks, 1)
        warm = max(total // 10, 1)
        self.estimates[key] = self.median(
            f"{prefix}{operation} {size} {blocks} {per_block} {warm}")
        return self.estimates[key]

    def measure_single(self, operation, size, budget, condition="single"):
        """Median of calls one at a time, in seconds; takes about `budget` seconds. `condition`:
        the last words of a line (loop.h)."""
        key = (condition.split()[0], operation, size)
        if key not in self.costs:
            self.few_singles(operation, size, condition)
        calls = min(max(int(budget / self.costs[key]), MIN_CALLS), MAX_CALLS)
        return self.singles(operation, size, condition, calls, max(calls // 10, 1))

    def few_singles(self, operation, size, condition="single"):
        return self.singles(operation, size, condition, 3, 2)

    def singles(self, operation, size, condition, calls, warm):
        began = time.monotonic()
        seconds = self.median(f"{operation} {size} 1 {calls} {warm} {condition}")
        self.costs[condition.split()[0], operation, size] = \
            (time.monotonic() - began) / (calls + warm)
        return seconds

    def first_estimate(self, what, budget):
        """Seconds per call, from increasing numbers of calls: a root's first calls can be free
        until its peers' buffers are full."""
        calls = 1
        seconds = self.median(f"{what} 3 1 2")
        while seconds * 3 * calls < budget / 4 and calls < 4096:
            calls *= 16
            seconds = self.median(f"{what} 3 {calls} 0")
        return seconds

    def median(self, line):
        slowest = sorted(max(block) for block in zip(*self.ask(line)))
        return slowest[len(slowest) // 2]

    def pids(self):
        """The processes of the group: those of its session."""
        found = []
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and os.getsid(int(entry)) == self.launcher.pid:
                    found.append(int(entry))
            except ProcessLookupError:
                continue
        return found

    def last_words(self):
        self.log.flush()
        self.log.seek(0)
        return self.log.read()[-600:].strip() or "It printed nothing."

    def close(self, hangs=False):
        try:
            for pipe in self.inputs:
                os.write(pipe, b"quit\n")
        except OSError:
            pass
        try:
            self.launcher.wait(timeout=0 if hangs else 5)
        except subprocess.TimeoutExpired:
            for pid in self.pids():
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.kill(pid, signal.SIGKILL)
            self.launcher.wait()
        for pipe in self.inputs + self.outputs:
            os.close(pipe)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
