# SPDX-License-Identifier: Apache-2.0
"""rondo.torchft: replicas of a training that die and come back, by torchft's own Manager."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

coordination = pytest.importorskip("torchft.coordination")
PROGRAM = pathlib.Path(__file__).parent / "programs" / "torchft_replica.py"
DEADLINE_SECONDS = float(os.environ.get("RONDO_TEST_DEADLINE", "300"))  # for busy machines
STEP = re.compile(r"^step (\d+) of (\d+) replicas (\S+)$", re.MULTILINE)


class Replica:
    def __init__(self, folder, lighthouse, name, *options):
        self.log = folder / f"{name}.log"
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, PROGRAM, lighthouse.address(), name, *options],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def text(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def steps(self):
        """By number: how many replicas took it, and the sum of the parameters after it."""
        return {int(n): (int(count), total) for n, count, total in STEP.findall(self.text())}

    def wait_for(self, replicas, after=0):
        """The number of the first step after `after` that this many replicas took."""
        end = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < end:
            for number, (count, _) in self.steps().items():
                if number > after and count == replicas:
                    return number
            assert self.process.poll() is None, f"it has ended\n{self.text()[-5000:]}"
            time.sleep(0.05)
        pytest.fail(f"no step of {replicas} replicas after step {after}\n{self.text()[-5000:]}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def start(tmp_path):
    """start(name, options of the program): a replica, which ends with the test."""
    lighthouse = coordination.LighthouseServer(
        bind="[::]:0", min_replicas=1, join_timeout_ms=2000, heartbeat_timeout_ms=5000
    )
    replicas = []

    def one(name, *options):
        replicas.append(Replica(tmp_path, lighthouse, name, *options))
        return replicas[-1]

    yield one
    for replica in replicas:
        replica.kill()
    lighthouse.shutdown()


def test_a_replica_goes_on_without_one_that_dies_and_takes_its_successor(start):
    first, second = start("first", "rondo"), start("second", "rondo", "dies")
    second.process.wait(DEADLINE_SECONDS)
    together = max(second.steps())
    alone = first.wait_for(1, after=together)
    assert re.search(rf"rank \d \(pid {second.process.pid} on \S+\)", first.text())
    third = start("third", "rondo")
    again = first.wait_for(2, after=alone)
    third.wait_for(2, after=alone)
    first.wait_for(2, after=again)
    ours, theirs = first.steps(), third.steps()
    both = [n for n in ours if n in theirs and ours[n][0] == theirs[n][0] == 2]
    assert both and all(ours[n] == theirs[n] for n in both)


@pytest.mark.parametrize("backend", ["gloo", "raises"])
def test_without_this_group_torchft_ends_by_its_assertion(start, backend):
    """As long as this holds, rondo.torchft is needed."""
    first, second = start("first", backend), start("second", backend, "dies")
    second.process.wait(DEADLINE_SECONDS)
    first.process.wait(DEADLINE_SECONDS)
    assert "assert fut._fut" in first.text(), first.text()[-5000:]
