# SPDX-License-Identifier: Apache-2.0
"""Stage: one command of the check, with what it may take and how its output is read.

Tables of stages are data (right.py, fast.py). A command is a tuple of words, or one string that
is cut at spaces; {bin}, {lib}, {here}, {beside}, {json} and the sizes of `machine.SIZES` are put in
when the stage begins.
"""

import fnmatch
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stage:
    name: str  # group.what; used by ONLY= and the report
    command: tuple[str, ...] | str
    limit: float  # seconds, after which all its processes are killed
    priority: int = 50  # lower values begin first
    log: str = "tests"  # text file for its output
    reads: str = "text"  # reader of its output: a name in readers.READERS
    env: dict[str, str] = field(default_factory=dict)
    alone: bool = False  # no other stage runs at the same time
    needs: str = ""  # what the machine must have: a name in machine.Machine.lacks()
    plan: str = ""  # what the plan of every row of a benchmark must contain
    facts: dict = field(default_factory=dict)  # copied into its record: CTAs, ranks, ...
    tests: tuple[str, ...] = ()  # names of the gtest tests to run
    program: str = ""  # the gtest program, for reruns after a failure
    round: int = 0  # how often tests of this suite were restarted

    def words(self) -> tuple[str, ...]:
        return tuple(self.command.split()) if isinstance(self.command, str) else self.command


def chosen(name: str, only: list[str]) -> bool:
    """A pattern is a whole name, a group before a dot, or has wildcards: fast, bench.*ring*, ..."""
    return not only or any(
        name == one or name.startswith(one + ".") or fnmatch.fnmatchcase(name, one) for one in only
    )
