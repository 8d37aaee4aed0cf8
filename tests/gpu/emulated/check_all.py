# SPDX-License-Identifier: Apache-2.0
"""All of tests/gpu/check.sh that an emulated GPU can answer, so that its first run on a GPU is not
its first run: every stage is begun, its limits, readers and files are those of a real one.

check_all.py BUILD OUT: a build of the preset simt. nvidia-smi, ncu and compute-sanitizer are those
beside this file; sizes are small (SIZES=tiny), limits long.
"""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Stages that the emulated GPU cannot run: the probe is CUDA C++, these programs need a real device.
NOT_HERE = ("probe", "torch.", "clients.cupy", "clients.jax", "beside.", "gpus.", "watch.theirs",
            "device-api")  # fmt: skip


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def run(build: str, out: str, *words: str, **more: str) -> tuple[int, str, dict]:
    path = f"{HERE}:{HERE / 'tools'}:{os.environ['PATH']}"
    environment = {
        "RONDO_SIMT_DEVICES": "1", "RONDO_SIMT": "lines=whole", "PATIENCE": "8", "JOBS": "2",
        "SECONDS_IN_ALL": "3000", **os.environ, "PATH": path, "OUT": out, **more,
    }  # fmt: skip
    with subprocess.Popen(
        ["bash", HERE.parent / "check.sh", "--built", build, *words], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, env=environment,
    ) as process:  # fmt: skip
        output = ""
        for line in process.stdout:
            print(line, end="", flush=True)
            output += line
    text = (pathlib.Path(out) / "results.json").read_text()
    return process.returncode, output, json.loads(text, parse_constant=refuse)


def one_gpu(build: str, out: str) -> None:
    code, output, results = run(build, out)
    assert len(os.listdir(out)) <= 9, os.listdir(out)
    assert results["complete"]
    stages = {stage["name"]: stage for stage in results["stages"]}
    strange = [name for name, stage in stages.items()
               if stage["status"] == "not run" and "skipped" not in stage["how"]
               and not name.startswith(NOT_HERE)]  # fmt: skip
    assert not strange, strange
    assert code == 0, [n for n, stage in stages.items() if stage["status"] in ("failed", "hung")]
    unread = [f"{name}: {stage['note']}" for name, stage in stages.items() if "note" in stage]
    assert not unread, unread
    print(f"{len(stages)} stages on one emulated GPU: as they should be")
    if "ONLY" in os.environ:
        return
    tuned = (pathlib.Path(out) / "gpu.tune").read_text()
    assert "\ngpu Emulated GPU\n" in tuned and stages["tune"]["numbers"]["ns"], tuned
    # Odd numbers are omitted, and the others kept.
    kernels = stages["counters.ring-f32"]["numbers"]["kernels"]
    assert kernels[0]["time"] == 1234567 and kernels[0]["l2_hit_percent"] is None, kernels
    assert kernels[0]["bytes_in_flight_a_multiprocessor_at_least"] == 12800, kernels
    measured = {row["stage"] for row in results["roof"] if row["%roof"] is not None}
    for name in ("micro", "threads-small.8", "ring.LL-8", "processes.8", "others.sendrecv"):
        assert name in measured, name
    assert "%roof" in output[-12_000:]


def what_no_gpu_has_answered(build: str, out: str) -> None:
    """Set NEXT, and of set A a stage: a verdict for each row, first in the summary."""
    groups = "nccl,ring,beside,probe,push,gpus,often,counters,ways.threads"
    code, _, results = run(build, out, "NEXT", ONLY=groups)
    assert code == 0 and results["complete"], results["counts"]
    summary = (pathlib.Path(out) / "summary.txt").read_text().splitlines()
    verdicts = {one["row"]: one["verdict"] for one in results["verdicts"]}
    for line, row in zip(summary[1:], verdicts):
        assert line.startswith(f"{row}: "), line
    kinds = ("met: ", "missed by ", "not run: ")
    assert all(verdict.startswith(kinds) for verdict in verdicts.values()), verdicts
    for kind in ("bfloat16", "float16", "int8"):
        verdict = verdicts[f"rings of {kind} by Simple, a CTA, beside float32"]
        assert verdict.startswith(("met: ", "missed by ")), verdict
    assert verdicts["set A"].startswith("met: 1 passed"), verdicts
    arrives = "what GPUs of processes write into each other's memory arrives"
    assert verdicts[arrives].startswith("not run: "), verdicts
    for p2p, verdict in (("all", "met: 2 passed"), ("lost", "missed by 2 of 2: ")):
        settings = {"RONDO_SIMT": f"lines=whole,p2p={p2p}", "RONDO_SIMT_DEVICES": "4"}
        several, _, results = run(build, out, "NEXT", ONLY="gpus.p2p-*,push.before", **settings)
        assert several == (p2p == "lost")
        verdicts = {one["row"]: one["verdict"] for one in results["verdicts"]}
        assert verdicts[arrives].startswith(verdict), verdicts
        why = results["stages"][0]["how"]
        assert why.startswith("there are no programs of an earlier commit"), results["stages"][0]


def several_gpus(build: str, out: str) -> None:
    code, _, results = run(build, out, "B", ONLY="gpus", RONDO_SIMT_DEVICES="4")
    assert code == 0 and results["counts"]["passed"] == len(results["stages"]) > 9, results[
        "counts"
    ]


def main() -> None:
    build, out = sys.argv[1:3]
    one_gpu(build, out)
    if "ONLY" not in os.environ:
        what_no_gpu_has_answered(build, f"{out}-next")
        several_gpus(build, f"{out}-several")


if __name__ == "__main__":
    main()
