# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/check.sh on suites with planted faults: each loses one suite and is named.

check_planted.py BUILD: the folder whose bin/gpu_tests is planted/suites.cc, on the emulated GPU.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

GPU = pathlib.Path(__file__).resolve().parents[1]
TOKEN = "RONDO_PLANTED_RUN"


def begin(build: str, out: str, *words: str, **more: str) -> subprocess.Popen:
    environment = {**os.environ, "PATH": f"{GPU / 'emulated'}:{os.environ['PATH']}", "OUT": out,
                   "JOBS": "3", TOKEN: out, **more}  # fmt: skip
    return subprocess.Popen(
        ["bash", GPU / "check.sh", "--built", build, *words], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, env=environment,
    )  # fmt: skip


def check(*words: str, **more: str) -> tuple[int, str]:
    with begin(*words, **more) as process:
        output = process.communicate(timeout=240)[0]
    return process.returncode, output


def results_in(out: str) -> dict:
    text = (pathlib.Path(out) / "results.json").read_text()
    return json.loads(text, parse_constant=refuse)


def still_there(out: str) -> list[str]:
    """Processes of the check that outlive it, found by their environment."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and f"{TOKEN}={out}".encode() in (entry / "environ").read_bytes()
            ):
                found.append(entry.name)
        except OSError:
            pass
    return found


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def faults_are_distinguished(build: str) -> None:
    with tempfile.TemporaryDirectory() as out:
        code, output = check(build, out, "A", ONLY="gpu_tests,gpu_process_tests,clients.jax")
        print(output)
        assert code == 1, code
        assert len(output) < 12_000
        files = os.listdir(out)
        assert len(files) <= 9 and "summary.txt" in files, files
        results = results_in(out)
        assert results["complete"] and results["running"] == []
        stages = {stage["name"].removeprefix("gpu_tests."): stage for stage in results["stages"]}
        status = {name: stage["status"] for name, stage in stages.items()}
        assert status == {
            "PlantedNothing": "passed", "PlantedWrongSum": "failed",
            "PlantedHang": "hung", "PlantedHang~1": "passed",
            "PlantedStickyError": "failed", "PlantedStickyError~1": "passed",
            "PlantedCrash": "failed", "PlantedExit": "failed",
            "gpu_process_tests.none": "not run", "clients.jax": status.get("clients.jax"),
        }, status  # fmt: skip
        assert status["clients.jax"] in ("not run", "failed")  # not on the emulated GPU
        assert stages["PlantedWrongSum"]["tests"]["passed"] == 1
        assert "planted: the sum of rank 1" in stages["PlantedWrongSum"]["failure"]
        assert "PlantedHang.WaitsWithoutLimit" in stages["PlantedHang"]["failure"]
        assert stages["PlantedHang~1"]["tests"]["passed"] == 1
        assert "LosesTheDevice" in stages["PlantedStickyError"]["failure"]
        assert stages["PlantedStickyError"]["tests"]["passed"] == 0, "the error does not stick"
        assert stages["PlantedStickyError~1"]["tests"]["passed"] == 1
        assert "SIGABRT" in stages["PlantedCrash"]["how"]
        assert stages["PlantedExit"]["how"] == "exit status 5"
        for name in ("HUNG gpu_tests.PlantedHang", "FAILED gpu_tests.PlantedStickyError"):
            assert name in output[-4000:], name
        assert still_there(out) == []


def the_time_of_a_set_ends_it(build: str) -> None:
    for seconds in ("8", "20", "60"):  # on a busy machine the time can be over before the hang
        with tempfile.TemporaryDirectory() as out:
            code, output = check(build, out, "A", ONLY="*PlantedHang", SECONDS_IN_ALL=seconds)
            (how,) = (stage["how"] for stage in results_in(out)["stages"]
                      if stage["status"] == "not run")  # fmt: skip
            assert code == 0 and still_there(out) == []
        if how != "no time was left":
            break
    assert "cut off" in how, (how, output)


def a_signal_ends_it_well(build: str) -> None:
    with tempfile.TemporaryDirectory() as out:
        with begin(build, out, "A", ONLY="*PlantedHang,*PlantedNothing", JOBS="1") as process:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                time.sleep(0.1)
                if os.path.exists(f"{out}/results.json") and results_in(out)["running"] == [
                    "gpu_tests.PlantedHang"
                ]:
                    break
            process.terminate()
            output = process.communicate(timeout=60)[0]
        hung = {stage["name"]: stage for stage in results_in(out)["stages"]}[
            "gpu_tests.PlantedHang"
        ]
        assert (hung["status"], hung["how"]) == ("not run", "stopped by SIGTERM"), (hung, output)
        assert "1 passed" in output and still_there(out) == [], output


def what_is_asked_for_is_there(build: str) -> None:
    with tempfile.TemporaryDirectory() as out:
        code, output = check(build, out, LIST="1")
        assert code == 0 and not os.listdir(out), output
        for name in ("probe", "ways.ring-ll128", "gpu_tests.PlantedHang", "ring.LL-8", "micro"):
            assert f"  {name} " in output, name
        code, output = check(build, out, ONLY="nobody")
        assert code == 2 and "no stage is called nobody" in output, output


def hazards_are_classified() -> None:
    sys.path.insert(0, str(GPU))
    from check.readers import read_racecheck

    def read(*lines: str) -> dict:
        stage = SimpleNamespace(name="sanitizer.racecheck.ll", tests=("Connected.Sums",))
        passed = ("[ RUN      ] Connected.Sums", "[       OK ] Connected.Sums (7 ms)")
        return read_racecheck(stage, "\n".join((*passed, *lines)), "")

    def hazard(place: str) -> str:
        return f"========= Error: Potential RAW hazard detected at __shared__ {place} in block"

    assert read()["tests"]["passed"] == 1 and "failure" not in read()
    waits = read(hazard("0x8"), hazard("0x410"), "========= RACECHECK SUMMARY: 2 hazards displayed")
    assert "failure" not in waits and "2 hazards" in waits["remarks"][0], waits
    assert "0x18" in read(hazard("0x8"), hazard("0x18"))["failure"]
    assert "0x0" in read(hazard("0x0"))["failure"]
    assert "failure" in read("========= Error: Race reported between Write access at f+0xd300")

    def job(kind: str, place: str, reader: int, writer: str) -> dict:
        math = "rondo::cuda::AnyMath<(rondo::DataType)3>"
        kernel = f"void rondo::cuda::run_kernel<rondo::cuda::Connected<{math}>>(T1::Args)"
        return read(
            hazard(place).replace("RAW", kind),
            f"=========     Read Thread ({reader},0,0) at {kernel}+0xde0",
            f"=========     Write Thread (0,0,0) at {writer}+0x1b0",
        )

    verb = "unsigned int rondo::cuda::run_verb<rondo::cuda::AnyMath<(rondo::DataType)3>>(T1)"
    known = job("WAR", "0xaa0", 319, verb)
    assert "failure" not in known and "1 hazards at jobs" in known["remarks"][0], known
    for other in (
        job("RAW", "0xaa0", 319, verb), job("WAR", "0x1020", 319, verb),
        job("WAR", "0xaa0", 32, verb), job("WAR", "0xaa0", 319, "rondo::cuda::next_call(T1)"),
    ):  # fmt: skip
        assert "failure" in other, other


def main() -> None:
    build = sys.argv[1]
    hazards_are_classified()
    what_is_asked_for_is_there(build)
    the_time_of_a_set_ends_it(build)
    a_signal_ends_it_well(build)
    faults_are_distinguished(build)


if __name__ == "__main__":
    main()
