# SPDX-License-Identifier: Apache-2.0
"""Every suite of gtest's as a stage, and what follows where one fails.

A suite runs in processes of its own, so that an error that sticks to the device's context, or a
hang, costs the rest of this suite only. What was not reached, or failed after the first failure, is
then begun again without the test that was at fault, up to twice; and the tests at fault run once
more under compute-sanitizer's memcheck, where there is one.
"""

import fnmatch
import subprocess

from stage import Stage

# Per program: seconds that a test may take, and its priority; the most valuable suites first.
COUNT_FREE_MEMORY = ("Hangs/", "SuspensionOf.")  # need the whole device's memory count: run alone
PROGRAMS = {"gpu_tests": 3.0, "gpu_process_tests": 6.0}
MIN_S, MAX_S = 20.0, 120.0
LARGE = 20  # a suite with more tests is split by parameter
# Kernels over connections, messages and graphs: what no GPU has run yet goes before all programs.
SOONER = ["gpu_tests.Settings/Connected*", "gpu_tests.*Connected*", "gpu_process_tests.*Message*",
          "gpu_tests.*Message*", "gpu_tests.Graph*",
          "gpu_process_tests.Places/ProcessGraphs"]  # fmt: skip
FIRST = [
    "gpu_tests.DeviceBinding", "gpu_tests.Ranks/DeviceCollectives",
    "gpu_process_tests.Processes/SharedGpu",
    "gpu_process_tests.SharedGpu*", "gpu_process_tests.Places/ProcessFaults*",
    "gpu_tests.Devices/CopyEngines", "gpu_process_tests.Victims/ProcessDeath",
    "gpu_process_tests.*Abort*", "gpu_process_tests.Hosts/GpuHosts", "gpu_process_tests.*Hosts*",
    "gpu_process_tests.*Mixed*", "gpu_process_tests.Device*", "gpu_process_tests.*",
]  # fmt: skip
SUITES_SOON, RACES, SUITES, AGAIN, MEMCHECK = 120, 140, 300, 500, 600  # priorities
ROUNDS, MAX_MEMCHECKS = 2, 6


def list_tests(program: str) -> dict[str, list[str]]:
    """Suite: names of its tests, as the program lists them; nothing where it cannot."""
    try:
        output = subprocess.run(
            [program, "--gtest_list_tests"], capture_output=True, text=True, timeout=30
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    suites: dict[str, list[str]] = {}
    suite = ""
    for line in output.splitlines():
        word = line.split("#")[0].strip()
        if word.endswith(".") and not line.startswith(" "):
            suite = word
        elif word and line.startswith("  ") and suite:
            suites.setdefault(suite[:-1], []).append(suite + word)
    return suites


def parts_of(suite: str, tests: list[str]) -> dict[str, list[str]]:
    """A large suite of parameters is a stage for each of them."""
    if len(tests) <= LARGE:
        return {suite: tests}
    parts: dict[str, list[str]] = {}
    for test in tests:
        parts.setdefault(f"{suite}/{test.split('/')[-1]}", []).append(test)
    return parts if len(parts) < len(tests) else {suite: tests}


def some(name: str, program: str, tests: list[str], **more) -> Stage:
    """A stage that runs these tests."""
    limit = min(max(MIN_S, 10 + PROGRAMS[program] * len(tests)), MAX_S)
    command = ("{bin}/" + program, "--gtest_filter=" + ":".join(tests))
    alone = any(part in test for test in tests for part in COUNT_FREE_MEMORY)
    return Stage(name, command, limit, reads="gtest", tests=tuple(tests), program=program,
                 alone=alone, **more)  # fmt: skip


def place(name: str) -> int:
    """The priority of a suite."""

    def among(patterns: list[str]) -> int | None:
        return next((i for i, p in enumerate(patterns) if fnmatch.fnmatchcase(name, p)), None)

    if (soon := among(SOONER)) is not None:
        return SUITES_SOON + soon
    first = among(FIRST)
    return SUITES + (len(FIRST) if first is None else first)


def suites(machine) -> list[Stage]:
    stages = []
    for program in PROGRAMS:
        listed = list_tests(f"{machine.bin}/{program}").items()
        parts = [part for suite, tests in listed for part in parts_of(suite, tests).items()]
        for suite, tests in parts:
            name = f"{program}.{suite}"
            stages.append(some(name, program, tests, priority=place(name)))
        if not any(stage.program == program for stage in stages):
            stages.append(
                Stage(f"{program}.none", ("{bin}/" + program, "--gtest_list_tests"), MIN_S,
                      needs=f"bin:{program}", reads="gtest", tests=("any",))
            )  # fmt: skip
    return stages


class Followers:
    """What a suite that failed calls for."""

    def __init__(self, machine) -> None:
        self.machine, self.memchecks = machine, 0

    def __call__(self, stage: Stage, record: dict) -> list[Stage]:
        tests = record.get("tests")
        if not stage.program or not tests or record["status"] not in ("failed", "hung"):
            return []
        at_fault = tests["running"] or next(iter(tests["failed"]), "")
        rest = [t for t in (*tests["failed"], *tests["not_reached"]) if t != at_fault]
        base = stage.name.split("~")[0]
        more = []
        if rest and stage.round < ROUNDS:
            more.append(some(f"{base}~{stage.round + 1}", stage.program, rest, priority=AGAIN,
                             round=stage.round + 1))  # fmt: skip
        if at_fault and self.memchecks < MAX_MEMCHECKS and not self.machine.lacks("sanitizer"):
            self.memchecks += 1
            more.append(sanitized("memcheck", at_fault, stage.program, [at_fault], MEMCHECK))
        return more


def sanitized(tool: str, name: str, program: str, tests: list[str], priority: int) -> Stage:
    races = tool == "racecheck"  # its findings are judged by the reader
    # A CTA has 24 mbarriers, which one instruction initialises for 24 threads.
    how = (
        ("--racecheck-report", "hazard", "--print-limit", "100000", "--num-cuda-barriers", "64")
        if races else ("--error-exitcode", "9")
    )  # fmt: skip
    command = ("{sanitizer}", "--tool", tool, *how, "--target-processes", "all",
               "{bin}/" + program, "--gtest_filter=" + ":".join(tests))  # fmt: skip
    return Stage(f"sanitizer.{tool}.{name}", command, 60, priority,
                 reads="racecheck" if races else "gtest",
                 needs="sanitizer", tests=tuple(tests))  # fmt: skip
