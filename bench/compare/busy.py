# SPDX-License-Identifier: Apache-2.0
"""One busy loop a core, for the comparison beside other programs (--busy)."""
import os
import signal
import subprocess
import sys

# PR_SET_PDEATHSIG: the loop ends with the program that started it, however that ends.
LOOP = "import ctypes; ctypes.CDLL(None).prctl(1, 9)\nwhile True: pass"


class BusyLoops:
    """Keeps `count` cores busy while it is entered. The loops are not bound to cores."""

    def __init__(self, count):
        self.count, self.loops = count, []

    def __enter__(self):
        self.loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(self.count)]
        return self

    def __exit__(self, *_):
        for loop in self.loops:
            os.kill(loop.pid, signal.SIGKILL)
            loop.wait()


def wanted(options):
    return len(os.sched_getaffinity(0)) if options.busy else 0
