# SPDX-License-Identifier: Apache-2.0
"""A process of the soak test, in a network namespace: writes episodes to its standard input, reads
outcomes from its output, and reads what it holds from /proc."""

import itertools
import os
import select
import subprocess
import time

numbers = itertools.count()


class Worker:
    def __init__(self, program, space, timeout_s):
        self.space = space
        self.name = f"{space}-{next(numbers)}"
        environment = {
            **os.environ,
            "RONDO_TIMEOUT": str(timeout_s),
            "RONDO_INIT_TIMEOUT": str(timeout_s),
            "NCCL_DEBUG": "NONE",
            "MALLOC_ARENA_MAX": "2",
        }
        self.process = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{space}", program],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        os.set_blocking(self.process.stdout.fileno(), False)
        self.received = b""

    def begin(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def line(self, end):
        """The next line of its output; None if the time is over or the process has ended."""
        while b"\n" not in self.received:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            more = self.process.stdout.read(65536)
            if not more:
                return None
            self.received += more
        text, self.received = self.received.split(b"\n", 1)
        return text.decode(errors="replace")

    def make_id(self):
        self.begin("id")
        answer = self.line(time.monotonic() + 60)
        if answer is None or not answer.startswith("id "):
            raise RuntimeError(f"{self.name} makes no id: {answer}")
        return answer[3:]

    def outcomes(self, end):
        """How each of its ranks ended the episode; None if not all did."""
        lines = []
        while (line := self.line(end)) is not None:
            if line == "done":
                return lines
            lines.append(line)
        return None

    def state(self):
        status = self.process.poll()
        return "no answer" if status is None else f"exit status {status}"

    def kill(self):
        self.process.kill()
        self.process.wait()

    def holds(self):
        pid = self.process.pid
        try:
            fields = dict(
                line.split(":", 1) for line in open(f"/proc/{pid}/status").read().splitlines()
            )
            return {
                "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
                "threads": int(fields["Threads"]),
                "rss_kb": int(fields["VmRSS"].split()[0]),
                "virtual_kb": int(fields["VmSize"].split()[0]),
            }
        except (OSError, KeyError):
            return {"descriptors": 0, "threads": 0, "rss_kb": 0, "virtual_kb": 0}
