# SPDX-License-Identifier: Apache-2.0
"""Runner: stages in the order of their priority, several at a time, within the time of a set.

Nothing here waits without a limit, and nothing that a stage does ends the others: a stage ends by
itself, or it is killed at its limit with all its processes, and the next begins. Stages that are
`alone` run by themselves. What has no time left is named as not run.
"""

import bisect
import json
import os
import pathlib
import signal
import time

from machine import SIZES
from process import Running
from readers import READERS, first_telling_line
from results import Results, one_line
from stage import Stage

LEAST = 5.0  # min. seconds left to begin a stage
NOT_RUN = 77  # the exit status of a program that cannot run here


class Runner:
    def __init__(self, machine, results: Results, jobs: int, patience: float, folder: str) -> None:
        self.machine, self.results, self.jobs = machine, results, jobs
        self.patience, self.folder = patience, folder
        self.stopped = ""  # why no stage begins any more
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(one, self._stop)

    def _stop(self, number: int, frame) -> None:
        self.stopped = f"stopped by {signal.Signals(number).name}"

    @staticmethod
    def now() -> float:
        return time.monotonic()

    def run(self, stages: list[Stage], seconds: float, which: str, follow) -> None:
        """follow(stage, record) gives stages that a result calls for."""
        self.which, self.deadline = which, time.monotonic() + seconds
        waiting: list[tuple[int, int, Stage]] = []
        count = 0

        def enqueue(more: list[Stage]) -> None:
            nonlocal count
            for stage in more:
                count += 1
                bisect.insort(waiting, (stage.priority, count, stage))

        enqueue(stages)
        running: list[tuple[Stage, Running]] = []
        while waiting or running:
            if self.stopped:
                running = [one for one in running if not self._cut(*one)]
            for one in list(running):
                if one[1].over():
                    running.remove(one)
                    self._names(running)
                    enqueue(follow(one[0], self._conclude(*one)))
            while waiting and self._room(waiting[0][2], running):
                begun = self._begin(waiting.pop(0)[2])
                if begun:
                    running.append(begun)
                    self._names(running)
                    self.results.write()
            time.sleep(0.02)

    def _names(self, running: list) -> None:
        self.results.running = [stage.name for stage, _ in running]

    def _room(self, stage: Stage, running: list[tuple[Stage, Running]]) -> bool:
        if stage.alone or (running and running[0][0].alone):
            return not running
        return len(running) < self.jobs

    def _begin(self, stage: Stage) -> tuple[Stage, Running] | None:
        left = self.deadline - time.monotonic()
        why = self.stopped or self.machine.lacks(stage.needs)
        if not why and left < LEAST:
            why = "no time was left"
        if why:
            self._record(stage, {"status": "not run", "how": why}, 0)
            return None
        place = f"{self.folder}/{len(self.results.records)}-{time.monotonic_ns()}"
        words = {**self.machine.words, "json": place + ".json"}
        env = {name: value.format(**words) for name, value in stage.env.items()}
        if self.machine.emulated:  # a separate machine for each stage
            env.setdefault("RONDO_SIMT_MACHINE", place.replace("/", "-").strip("-"))
        command: list[str] = []
        for word in stage.words():
            put = word.format(**words)
            command += put.split() if word.strip("{}") in SIZES["full"] else [put]
        limit = min(stage.limit * self.patience, left)
        try:
            return stage, Running(command, env, limit, place)
        except OSError as error:
            self._record(stage, {"status": "failed", "how": "it does not start",
                                 "failure": str(error)}, 0)  # fmt: skip
            return None

    def _cut(self, stage: Stage, run: Running) -> bool:
        run.kill()
        self._record(stage, {"status": "not run", "how": self.stopped}, run.age())
        return True

    def _conclude(self, stage: Stage, run: Running) -> dict:
        seconds, text = run.age(), run.text()
        try:
            found = READERS[stage.reads](stage, text, f"{run.output}.json")
        except Exception as error:  # unexpected output must not end the check
            why = f"its output could not be read: {type(error).__name__}: {error}"
            found = {"note": why, "remarks": [why]}
        if "probe" in found:
            self.results.replace("probe.json", json.dumps(found.pop("probe"), indent=1) + "\n")
        if "tune" in found:
            self.results.replace("gpu.tune", found.pop("tune"))
        record = self._verdict(stage, run, found, text)
        if run.notes:
            record["notes"] = run.notes
        self._record(stage, record, seconds)
        title = f"{stage.name}: {record['status']} in {seconds:.1f} s: {' '.join(stage.words())}"
        self.results.log(stage.log, title, text, record["status"] == "passed")
        for leftover in (run.output, pathlib.Path(f"{run.output}.json")):
            leftover.unlink(missing_ok=True)
        if self.machine.emulated:
            name = str(run.output).replace("/", "-").strip("-")
            pathlib.Path(f"/tmp/rondo-simt-{os.getuid()}-{name}").unlink(missing_ok=True)
        return self.results.records[-1]

    def _verdict(self, stage: Stage, run: Running, found: dict, text: str) -> dict:
        code, tests = run.process.returncode, found.get("tests", {})
        last = found.pop("last_line", "")
        if run.hung and run.seconds < stage.limit * self.patience:
            end = {"status": "failed" if "failure" in found else "not run",
                   "how": f"cut off after {run.seconds:.0f} s, at the end of the set"}  # fmt: skip
        elif run.hung:
            at = last or first_telling_line("\n".join(text.splitlines()[-1:]))
            end = {"status": "hung", "how": f"killed after {run.seconds:.0f} s",
                   "failure": f"in {at}" if last else at}  # fmt: skip
        elif code == NOT_RUN:
            end = {
                "status": "not run",
                "how": one_line((text.strip().splitlines() or ["?"])[-1], 200),
            }
        elif code < 0:
            end = {"status": "failed", "how": f"ended by {signal.Signals(-code).name}",
                   "failure": f"in {last}" if last else first_telling_line(text)}  # fmt: skip
        elif tests.get("failed"):
            all_of = tests["passed"] + len(tests["failed"])
            end = {"status": "failed", "how": f"{len(tests['failed'])} of {all_of} tests"}
        elif code != 0:
            end = {"status": "failed", "how": f"exit status {code}",
                   "failure": last or first_telling_line(text)}  # fmt: skip
        elif stage.tests and not tests.get("passed") and not tests.get("skipped"):
            end = {"status": "failed", "how": "no test ran"}
        elif tests.get("skipped") and not tests["passed"]:
            end = {"status": "not run", "how": "all its tests were skipped"}
        else:
            end = {"status": "failed" if "failure" in found else "passed"}
        return {**end, **found}

    def _record(self, stage: Stage, what: dict, seconds: float) -> None:
        record = {"name": stage.name, "set": self.which, **what, "seconds": round(seconds, 2),
                  "limit": round(stage.limit * self.patience, 1), **stage.facts}  # fmt: skip
        if "failure" in record:
            record["failure"] = one_line(record["failure"], 600)
        if record["status"] != "passed":
            record["command"] = " ".join(stage.words())[:2000]
            record["env"] = stage.env
        self.results.add(record)
        shown = record["status"] if record["status"] == "passed" else record["status"].upper()
        print(f"{shown:>8} {stage.name} in {seconds:.1f} s", flush=True)
