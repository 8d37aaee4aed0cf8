# SPDX-License-Identifier: Apache-2.0
"""Set NEXT: what no GPU has answered yet, then set A; a verdict for each row of the table below.

  python3 tests/gpu/check/open_questions.py gpu-results/results.json    of a run that was killed

A row is met, missed by some amount, or not run with the reason. Its stages are those of sets A and
B, or made here. A row leaves the table when its answer is in bench/results and on the pages.
"""

import dataclasses
import fnmatch
import json
import pathlib
import re
import sys
from typing import NamedTuple

import fast
import right
import roof
from stage import Stage

TYPES = ("bfloat16", "float16", "int8")
TIMES = 10  # torch.2 hung twice beside other stages
NOT_PERMITTED = re.compile("ERR_NVGPUCTRPERM|permission", re.IGNORECASE)


class Figure(NamedTuple):
    """The best value of a column of roof.txt among the rows of a stage that match."""

    stage: str
    column: str
    match: dict[str, object] = {}

    def of(self, records: list[dict]) -> float | None:
        found = [
            row[self.column]
            for row in roof.rows_of([r for r in records if r["name"] == self.stage])
            if all(row.get(key) == value for key, value in self.match.items())
            and roof.is_number(row.get(self.column))
        ]
        best = max if self.column.startswith("GB/s") else min
        return best(found) if found else None


class Compared(NamedTuple):
    """A figure that shall reach `times` the other one: at least of rates, at most of times."""

    what: str
    figure: Figure
    other: Figure
    times: float

    def verdict(self, records: list[dict]) -> str:
        for one in (self.figure, self.other):
            if (why := unanswered(records, one.stage)) is not None:
                return why
        value, other = self.figure.of(records), self.other.of(records)
        if value is None or other is None:
            return f"not run: {(self.figure if value is None else self.other).stage} has no figure"
        rate = self.figure.column.startswith("GB/s")
        share = value / (self.times * other) if rate else self.times * other / value
        unit = self.figure.column if rate else "us"
        seen = (f"{roof.shown(value)} {unit}, aim {roof.shown(self.times * other)} "
                f"({self.times:g} x {self.other.stage})")  # fmt: skip
        return f"met: {seen}" if share >= 1 else f"missed by {100 * (1 - share):.0f} %: {seen}"


class Passed(NamedTuple):
    """All stages of these names, or of this set, shall pass."""

    what: str
    patterns: tuple[str, ...] = ()
    of_set: str = ""

    def verdict(self, records: list[dict]) -> str:
        mine = [r for r in records if r["set"] == self.of_set
                or any(fnmatch.fnmatchcase(r["name"], one) for one in self.patterns)]  # fmt: skip
        wrong = [r for r in mine if r["status"] in ("failed", "hung")
                 and not NOT_PERMITTED.search(r.get("failure", ""))]  # fmt: skip
        away = [r for r in mine if r["status"] != "passed" and r not in wrong]
        if wrong:
            names = ", ".join(f"{r['name']} {r['status']}" for r in wrong)
            return f"missed by {len(wrong)} of {len(mine)}: {names}"
        # Set A holds stages for machines of other kinds, but none may lack time.
        cut = [r for r in away if "no time" in r["how"] or "cut off" in r["how"]]
        if cut or len(away) == len(mine):
            first = (cut or away or [{"how": "no stage ran"}])[0]
            return f"not run: {len(cut or away)} of {len(mine)}: {reason(first)}"
        return f"met: {len(mine) - len(away)} passed" + (f", {len(away)} not run" if away else "")


def reason(record: dict) -> str:
    found = NOT_PERMITTED.search(record.get("failure", ""))
    return f"the driver says {found.group()}" if found else record["how"]


def unanswered(records: list[dict], stage: str) -> str | None:
    """The verdict of a row one of whose stages has no answer; None if it has."""
    record = next((r for r in records if r["name"] == stage), None)
    if record is None:
        return f"not run: {stage} was not among the stages"
    if record["status"] == "passed":
        return None
    if record["status"] == "not run":
        return f"not run: {reason(record)}"
    why = record.get("failure") or record.get("how", "")
    return f"missed by all of it: {stage} {record['status']}: {why[:150]}"


A_CTA = "GB/s a CTA"
LAUNCHED = {"collective": "all_reduce", "bytes": 8, "form": "stream"}


def barrier(order: str) -> Figure:
    return Figure("probe.barriers", "us", {"collective": f"{order}_8_beside_writes"})


ROWS = (
    *(Compared(f"rings by {protocol}, a CTA, beside NVIDIA's NCCL",
               Figure(f"ring.{protocol}-1", A_CTA), Figure(f"nccl.{protocol}-1", A_CTA), 1.0)
      for protocol in ("Simple", "LL", "LL128")),
    *(Compared(f"rings of {kind} by {protocol}, a CTA, beside float32",
               Figure(f"ring.{protocol}-1-{kind}", A_CTA), Figure(f"ring.{protocol}-1", A_CTA), 0.9)
      for kind in TYPES for protocol in ("Simple", "LL")),
    Compared("one rank, launched, 8 bytes, beside NVIDIA's NCCL",
             Figure("beside.1", "us", LAUNCHED), Figure("beside.1", "theirs", LAUNCHED), 1.05),
    Compared("a barrier of 8 by one fence, beside writes", barrier("one_fence"),
             barrier("two_fences"), 0.7),
    Compared("a barrier of 8 by release and acquire, beside writes", barrier("release_acquire"),
             barrier("two_fences"), 0.7),
    Compared("LL push, 8 GPUs and fewer, beside the build before", Figure("push.now", "us"),
             Figure("push.before", "us"), 1.02),
    Passed(f"PyTorch with two ranks, {TIMES} times", ("often.torch-*",)),
    Passed("what GPUs of processes write into each other's memory arrives", ("gpus.p2p-*",)),
    Passed("kernels of NCCL's device API on threads that share a GPU", ("device-api",)),
    Passed("the same kernels with NVIDIA's nccl_device.h", ("device-api.theirs-*",)),
    Passed("kernels of NCCL's device API on GPUs of their own", ("gpus.device-api*",)),
    Passed("counts in device memory: a mixture of experts", ("device-api.counts",)),
    Passed("torch's symmetric memory, with NVIDIA's nccl_device.h", ("torch.symmetric-*",)),
    Passed("NVIDIA's NCCL under rondo watch", ("watch.theirs-*",)),
    Passed("ncu's counters", ("counters.*",)),
    Passed("set A", of_set="A"),
)  # fmt: skip


def typed(protocol: str, kind: str) -> Stage:
    ring = fast.forced("ring", protocol, 1)
    return dataclasses.replace(
        ring, name=f"{ring.name}-{kind}", command=f"{ring.command} -d {kind}",
        facts={key: value for key, value in ring.facts.items() if key != "predicted"},
    )  # fmt: skip


def push(name: str, program: str, need: str) -> Stage:
    """LL push among all GPUs of one process."""
    command = f"{program} bench all_reduce -g {{gpus}} {{small}} {fast.ENDS}"
    return Stage(name, command, 30, log="bench", reads="bench", env=right.forced("oneshot", "LL"),
                 alone=True, needs=need)  # fmt: skip


def p2p(kind: str) -> Stage:
    """The check of P2P is at init; where it fails, a WARN line says so."""
    return Stage(f"gpus.p2p-{kind}", f"{fast.BENCH} {kind} --ranks {{gpus}} {right.ONCE}", 30,
                 log="bench", reads="p2p", env={"NCCL_P2P_LEVEL": "SYS", "NCCL_DEBUG": "WARN"},
                 alone=True, needs="several")  # fmt: skip


def stages() -> list[Stage]:
    known = {stage.name: stage for stage in (*right.stages(), *fast.stages())}
    torch = known["torch.2"]
    barriers = Stage("probe.barriers", "{bin}/gpu_probe --json {json} barriers", 30, reads="probe",
                     alone=True, needs="bin:gpu_probe", facts={"rows_of": "barriers"})  # fmt: skip
    counted = [stage for name, stage in known.items() if name.startswith("counters.")]
    # Short stages first: if time runs out, the last ones are not run.
    chosen = [
        *(known[f"{side}.{protocol}-1"] for protocol in ("Simple", "LL", "LL128")
          for side in ("ring", "nccl")),
        *(typed(protocol, kind) for kind in TYPES for protocol in ("Simple", "LL")),
        barriers, known["beside.1"], push("push.now", "{bin}/rondo", "several"),
        push("push.before", "{before}/bin/rondo", "before"),
        p2p("all_reduce"), p2p("sendrecv"),
        *(dataclasses.replace(torch, name=f"often.torch-{turn}") for turn in range(1, TIMES + 1)),
        *counted,
    ]  # fmt: skip
    return [dataclasses.replace(stage, priority=place) for place, stage in enumerate(chosen)]


def verdicts(records: list[dict]) -> list[dict[str, str]]:
    return [{"row": row.what, "verdict": row.verdict(records)} for row in ROWS]


if __name__ == "__main__":
    for one in verdicts(json.loads(pathlib.Path(sys.argv[1]).read_text())["stages"]):
        print(f"{one['row']}: {one['verdict']}")
