# SPDX-License-Identifier: Apache-2.0
"""One busy loop a core, for the conditions beside other programs (conditions.py)."""
import os
import signal
import subprocess
import sys

# PR_SET_PDEATHSIG: the loop ends with the program that started it, however that ends.
LOOP = "import ctypes; ctypes.CDLL(None).prctl(1, 9)\nprint(flush=True)\nwhile True: pass"


class BusyLoops:
    """`count` loops while it is entered, stopped but between go_on() and pause(). They are not
    bound to cores."""

    def __init__(self, count):
        self.count, self.loops = count, []

    def __enter__(self):
        self.loops = [subprocess.Popen([sys.executable, "-c", LOOP], stdout=subprocess.PIPE)
                      for _ in range(self.count)]
        for loop in self.loops:
            loop.stdout.readline()  # it runs, and ends with this program
        self.pause()
        return self

    def __exit__(self, *_):
        for loop in self.loops:
            loop.kill()
            loop.wait()
            loop.stdout.close()
        self.loops = []

    def signal(self, which):
        for loop in self.loops:
            os.kill(loop.pid, which)

    def pause(self):
        self.signal(signal.SIGSTOP)

    def go_on(self):
        self.signal(signal.SIGCONT)
