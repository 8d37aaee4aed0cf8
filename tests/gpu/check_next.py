# SPDX-License-Identifier: Apache-2.0
"""The verdicts of set NEXT (check/open_questions.py) on made-up records: each is met, missed by
some amount, or not run with the reason."""

import json
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).resolve().parent / "check"
sys.path.insert(0, str(CHECK))
from open_questions import ROWS, stages, verdicts  # noqa: E402
from readers import read_probe  # noqa: E402
from stage import Stage  # noqa: E402


def ring(name: str, *rates: float) -> dict:
    rows = [{"bytes": 65536 << i, "bus_gbs_a_cta": rate} for i, rate in enumerate(rates)]
    return passed(name, {"collective": "all_reduce", "rows": rows})


def passed(name: str, numbers: dict | None = None, of: str = "NEXT") -> dict:
    return {"name": name, "set": of, "status": "passed", "numbers": numbers or {}}


def other(name: str, status: str, how: str, failure: str = "", of: str = "NEXT") -> dict:
    return {"name": name, "set": of, "status": status, "how": how, "failure": failure}


def beside(ours: float, theirs: float) -> dict:
    def row(form: str, size: int, *us: float) -> dict:
        return {"collective": "all_reduce", "ranks": 1, "bytes": size, "form": form,
                "ours_us": us[0], "theirs_us": us[1]}  # fmt: skip

    medians = [row("graph", 8, 1, 1), row("stream", 8, ours, theirs), row("stream", 65536, 1, 9)]
    return passed("beside.1", {"medians": medians})


def barriers(**ns: float) -> dict:
    rows = [{"kernel": f"{name}_8_beside_writes", "us": value / 1000} for name, value in ns.items()]
    return passed("probe.barriers", {"rows": rows})


def check(row: str, records: list[dict], begin: str, *parts: str) -> None:
    (verdict,) = [one["verdict"] for one in verdicts(records) if one["row"] == row]
    assert verdict.startswith(begin) and all(part in verdict for part in parts), (row, verdict)


def figures() -> None:
    simple = "rings by Simple, a CTA, beside NVIDIA's NCCL"
    nccl = [ring("nccl.Simple-1", 20.0, 24.0)]
    check(simple, [ring("ring.Simple-1", 27.6, 3.0), *nccl], "met: 27.6 GB/s a CTA, aim 24 ")
    check(simple, [ring("ring.Simple-1", 2.0, 18.0), *nccl], "missed by 25 %: 18 GB/s a CTA")
    check(simple, [ring("ring.Simple-1", 27.6)], "not run: nccl.Simple-1 was not among")
    lacking = [other("nccl.Simple-1", "not run", "there is no NCCL")]
    check(simple, [ring("ring.Simple-1", 27.6), *lacking], "not run: there is no NCCL")
    check(simple, [ring("ring.Simple-1"), *nccl], "not run: ring.Simple-1 has no figure")
    broken = [other("ring.Simple-1", "failed", "exit status 3", "4 wrong elements")]
    check(simple, [*broken, *nccl], "missed by all of it: ring.Simple-1 failed: 4 wrong elements")

    of_type = "rings of int8 by LL, a CTA, beside float32"
    records = [ring("ring.LL-1", 6.0), ring("ring.LL-1-int8", 5.0)]
    check(of_type, records, "missed by 7 %", "5 GB/s a CTA, aim 5.4 (0.9 x ring.LL-1)")

    # Times: less is better, and only the row of this size and form counts.
    launched = "one rank, launched, 8 bytes, beside NVIDIA's NCCL"
    check(launched, [beside(4.5, 4.4)], "met: 4.5 us, aim 4.62")
    check(launched, [beside(5.76, 4.44)], "missed by 19 %")

    fence = "a barrier of 8 by one fence, beside writes"
    check(fence, [barriers(two_fences=10_000, one_fence=6_900)], "met: 6.9 us, aim 7 ")
    check(fence, [barriers(two_fences=10_000, one_fence=9_000)], "missed by 22 %")


def counts() -> None:
    torch = "PyTorch with two ranks, 10 times"
    well = [passed(f"often.torch-{turn}") for turn in range(1, 10)]
    check(torch, [*well, passed("often.torch-10")], "met: 10 passed")
    hung = other("often.torch-10", "hung", "killed after 60 s")
    check(torch, [*well, hung], "missed by 1 of 10: often.torch-10 hung")
    check(torch, [other("often.torch-1", "not run", "no torch")], "not run: 1 of 1: no torch")
    check(torch, [], "not run: 0 of 0: no stage ran")
    late = other("often.torch-10", "not run", "no time was left")
    check(torch, [*well, late], "not run: 1 of 10: no time was left")

    permitted = "ncu's counters"
    refused = other("counters.direct-2", "failed", "exit status 1", "==ERROR== ERR_NVGPUCTRPERM -")
    check(permitted, [refused], "not run: 1 of 1: the driver says ERR_NVGPUCTRPERM")
    check(permitted, [passed("counters.direct-2")], "met: 1 passed")

    whole = [passed("ways.tree", of="A"), other("gpus", "not run", "there is one GPU", of="A")]
    check("set A", [*whole, other("often.torch-1", "failed", "")], "met: 1 passed, 1 not run")
    check("set A", [*whole, other("x", "failed", "y", of="A")], "missed by 1 of 3: x failed")
    cut = other("x", "not run", "cut off after 9 s, at the end of the set", of="A")
    check("set A", [*whole, cut], "not run: 1 of 3: cut off after 9 s")


def barriers_are_read() -> None:
    stage = next(stage for stage in stages() if stage.name == "probe.barriers")
    values = {"one_fence_8": {"value": 1500, "unit": "ns"}, "turns": 2000}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "probe.json"
        assert "failure" in read_probe(stage, "it ended", str(path))
        path.write_text(json.dumps({"probes": {"barriers": {"status": "ok", "values": values}}}))
        rows = read_probe(stage, "", str(path))["numbers"]["rows"]
    assert rows == [{"kernel": "one_fence_8", "us": 1.5}], rows


def a_killed_run_has_verdicts_too() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "results.json"
        path.write_text(json.dumps({"complete": False, "stages": [ring("ring.LL-1", 6.0)]}))
        done = subprocess.run([sys.executable, CHECK / "open_questions.py", path], check=True,
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == len(ROWS), lines
    assert lines[1].endswith("not run: nccl.LL-1 was not among the stages"), lines[1]


def every_row_has_its_stages() -> None:
    names = {stage.name for stage in stages()}
    assert len(names) == len(stages())
    for row in ROWS:
        for figure in (getattr(row, "figure", None), getattr(row, "other", None)):
            assert figure is None or figure.stage in names, figure
    assert all(isinstance(stage, Stage) and stage.limit <= 75 for stage in stages())
    assert all(one["verdict"].startswith("not run") for one in verdicts([]))


if __name__ == "__main__":
    figures()
    counts()
    barriers_are_read()
    a_killed_run_has_verdicts_too()
    every_row_has_its_stages()
