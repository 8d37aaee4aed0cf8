# SPDX-License-Identifier: Apache-2.0
"""Starvation: takes the processor from threads of the tests at random, as a busy machine does.

  with Starvation(os.getpid()):
      run the tests, as descendants of this process
  tests/starvation.py PID    while that process lives, for its descendants

A busy loop runs on each core. A chosen thread has the policy SCHED_IDLE beside them for 20 ms to 3
s, and hardly runs meanwhile: each rank comes late somewhere, each poll sees an early state, and
each deadline begins before somebody is there. Tests fail here that pass beside busy loops alone.
The kernel lets only root return a thread from SCHED_IDLE; other users have the loops alone.
"""
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time

SHARE = 0.15  # of the threads, at each choice
SHORTEST, LONGEST = 0.02, 3.0  # seconds; each order of magnitude is as likely
CHOOSE_EVERY = 0.1  # seconds


def descendants(pid):
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="ascii",
                                                errors="replace") as file:
            parent = int(file.read().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found, left = [], [pid]
    while left:
        more = children.get(left.pop(), [])
        found += more
        left += more
    return found


def threads_of(pids):
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            found += map(int, os.listdir(f"/proc/{pid}/task"))
    return found


def set_policy(thread, policy):
    """Threads end at any time."""
    with contextlib.suppress(ProcessLookupError):
        os.sched_setscheduler(thread, policy, os.sched_param(0))


class Starvation:
    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        loop = f"import os\nwhile os.getppid() == {os.getpid()}: pass"
        self.loops = [subprocess.Popen([sys.executable, "-c", loop])
                      for _ in range(os.cpu_count())]
        self.end = threading.Event()
        self.thread = threading.Thread(target=self.starve)
        if os.geteuid() == 0:
            self.thread.start()
        return self

    def __exit__(self, *failure):
        self.end.set()
        if self.thread.ident:
            self.thread.join()
        for loop in self.loops:
            loop.kill()
            loop.wait()

    def starve(self):
        starved, chosen_at = {}, 0.0  # thread: until when
        while not self.end.wait(0.01):
            now = time.monotonic()
            if now - chosen_at >= CHOOSE_EVERY:
                chosen_at = now
                self.choose(starved, now)
            for thread in [t for t, until in starved.items() if until <= now]:
                set_policy(thread, os.SCHED_OTHER)
                del starved[thread]
        for thread in starved:
            set_policy(thread, os.SCHED_OTHER)

    def choose(self, starved, now):
        own = {os.getpid(), *(loop.pid for loop in self.loops)}
        threads = threads_of(pid for pid in descendants(self.pid) if pid not in own)
        for thread in set(starved) - set(threads):
            del starved[thread]
        for thread in threads:  # a child of a starved thread has its policy
            with contextlib.suppress(ProcessLookupError):
                if thread not in starved and os.sched_getscheduler(thread) == os.SCHED_IDLE:
                    set_policy(thread, os.SCHED_OTHER)
        wanted = max(1, int(SHARE * len(threads))) if random.random() < 0.7 else 0
        for thread in random.sample(threads, min(wanted, len(threads))):
            if thread not in starved:
                set_policy(thread, os.SCHED_IDLE)
                starved[thread] = now + SHORTEST * (LONGEST / SHORTEST) ** random.random()


def main():
    pid = int(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Starvation(pid):
        while os.path.exists(f"/proc/{pid}"):
            time.sleep(0.1)


if __name__ == "__main__":
    main()
