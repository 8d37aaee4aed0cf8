# SPDX-License-Identifier: Apache-2.0
"""What the output of a stage says: why it failed, in one line, and the numbers in it.

A reader gets (stage, text, path of the file that {json} named) and returns a dict with any of
  "failure"   the first line of what went wrong; the stage failed, whatever its exit status
  "numbers"   what was measured, as JSON
  "tests"     of gtest: {"passed": 3, "skipped": 1, "failed": [...], "not_reached": [...],
              "running": name}, the last being the test that was under way when it ended
  "remarks"   lines for the summary that are no failure
Readers take whatever there is: half a file, odd numbers, nothing.
"""

import csv
import io
import json
import math
import pathlib
import re

TELLING = re.compile(
    r"\b\w*(error|exception)\b|fail|wrong|abort|violation|hazard|not equal|cannot|unknown|refuse",
    re.IGNORECASE,
)
PYTHON_ERROR = re.compile(r"^([\w.]*(Error|Exception|Interrupt)\b.*)")


def first_telling_line(text: str) -> str:
    """Python's exception, or the first line that sounds like a failure, or the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if PYTHON_ERROR.match(line):
            return line
    for line in lines:
        if TELLING.search(line) and not line.startswith("[ "):
            return line
    return lines[-1] if lines else "it printed nothing"


def number(value: object) -> float | None:
    """Finite or nothing: JSON knows no other numbers."""
    try:
        read = float(str(value).replace(",", ""))
    except ValueError:
        return None
    return read if math.isfinite(read) else None


def whole(value: object) -> object:
    """Any JSON without infinities and NaNs, which Python writes and nobody else reads."""
    if isinstance(value, dict):
        return {str(key): whole(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [whole(part) for part in value]
    return value if not isinstance(value, float) or math.isfinite(value) else None


def load(path: str) -> object:
    try:
        return whole(json.loads(pathlib.Path(path).read_text()))
    except (OSError, ValueError):
        return None


def read_text(stage, text: str, path: str) -> dict:
    return {}


GTEST = re.compile(r"^\[ *(RUN|OK|FAILED|SKIPPED) *\] ([^\s,]+\.[^\s,]+)")


def read_gtest(stage, text: str, path: str) -> dict:
    state: dict[str, str] = {}
    output: dict[str, list[str]] = {}
    running = ""
    for line in text.splitlines():
        hit = GTEST.match(line)
        if hit is None:
            output.setdefault(running, []).append(line)
        elif hit[1] == "RUN":
            running = hit[2]
            state[running] = "running"
        elif hit[2] == running or state.get(hit[2], "running") == "running":
            state[hit[2]] = hit[1]
            running = "" if hit[2] == running else running
    by = {s: [name for name, what in state.items() if what == s]
          for s in ("OK", "FAILED", "SKIPPED", "running")}  # fmt: skip
    found = {
        "passed": len(by["OK"]), "skipped": len(by["SKIPPED"]), "failed": by["FAILED"],
        "running": (by["running"] or [""])[-1],
        "not_reached": [name for name in stage.tests if name not in state],
    }  # fmt: skip
    answer: dict = {"tests": found}
    if by["FAILED"]:
        name = by["FAILED"][0]
        answer["failure"] = f"{name}: {gtest_failure(output.get(name, []))}"
    elif found["running"]:
        name = found["running"]
        answer["last_line"] = f"{name}: {gtest_failure(output.get(name, []))}"
    return answer


# With these words of kernel_wait.h, kPollerAt and kLimitAt, the threads of a CTA agree on which one
# polls the host's words. They need no order, which racecheck cannot know. If a device reserves the
# first KiB of shared memory, they are behind it.
WAIT_WORDS = [at + offset for at in (0, 1024) for offset in range(8, 24)]
HAZARD = re.compile(r"hazard detected at __shared__ (0x[0-9a-fA-F]+)")


# Entries of the ring of jobs (cta_memory.h: kJobsAt, kJobBarriersAt), behind the same KiB. A worker
# reads a job; the control warp's first lane writes a later one there. Three steps order them, which
# racecheck does not join (JobRing::finish()).
JOBS = [range(at + 0x6A0, at + 0xC20) for at in (0, 1024)]
FIRST_WORKER = 64
READS, WRITES = (re.compile(what + r" Thread \((\d+),0,0\) at (.*)") for what in ("Read", "Write"))


def is_job_taken_over(place: int, report: list[str]) -> bool:
    """Whether it is a worker's read of a job before the write of the next one in its entry."""
    reads, writes = ([m for line in report if (m := what.search(line))] for what in (READS, WRITES))
    return (
        "Potential WAR hazard" in report[0]
        and any(place in jobs for jobs in JOBS)
        and len(reads) == len(writes) == 1
        and int(reads[0][1]) >= FIRST_WORKER and "Connected<" in reads[0][2]
        and int(writes[0][1]) == 0 and "run_verb" in writes[0][2]
    )  # fmt: skip


def read_racecheck(stage, text: str, path: str) -> dict:
    answer = read_gtest(stage, text, path)
    waits = jobs = 0
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if not re.search(r"\bhazard detected|\bRace reported", line):
            continue
        found = HAZARD.search(line)
        place = int(found[1], 16) if found else -1
        if place in WAIT_WORDS:
            waits += 1
        elif is_job_taken_over(place, lines[i : i + 3]):
            jobs += 1
        else:
            return {"failure": line.strip("= "), **answer}
    answer["remarks"] = [
        f"{stage.name}: {count} hazards {what}, which are none"
        for count, what in ((waits, "at the words of waits"), (jobs, "at jobs that are taken over"))
        if count
    ]
    return answer


def gtest_failure(lines: list[str]) -> str:
    lines = [line.strip() for line in lines if line.strip()]
    for at, line in enumerate(lines):
        if line.endswith("Failure"):
            more = [
                one for one in lines[at + 1 : at + 7] if not one.startswith("Expected equality")
            ]
            return " | ".join([line.removesuffix(": Failure").split("/")[-1], *more])
    return first_telling_line("\n".join(lines)) if lines else ""


SIDE = ("time", "median_us", "min_us", "alg_bw", "bus_bw", "roofline", "roof_of", "nwrong")


def read_bench(stage, text: str, path: str) -> dict:
    document = load(path)
    if not isinstance(document, dict):
        return {"failure": first_telling_line(text)}
    config, rows = document.get("config") or {}, []
    for row in document.get("results") or []:
        side = row.get("out_of_place") or row.get("in_place") or {}
        rows.append({"bytes": row.get("size"), "type": row.get("type"), "plan": row.get("plan"),
                     **{key: side.get(key) for key in SIDE}})  # fmt: skip
        rows[-1]["predicted"] = stage.facts.get("predicted")
        ctas = stage.facts.get("ctas")
        if ctas and side.get("bus_bw"):
            rows[-1]["bus_gbs_a_cta"] = side["bus_bw"] / ctas
    copies, links = ([d.get(key) for d in config.get("devices") or [] if d.get(key)]
                     for key in ("copy_gbs", "link_gbs"))  # fmt: skip
    accesses, ranks = stage.facts.get("through_memory"), config.get("ranks")
    for row in rows if accesses and ranks and copies else []:
        if row["bus_bw"]:  # copy_gbs: read and written
            row["roofline"] = row["bus_bw"] * ranks * accesses / max(copies)
            row["roof_of"] = "memory"
    answer: dict = {"numbers": {
        "collective": config.get("collective"), "ranks": config.get("ranks"),
        "launch": config.get("launch"), "graph": config.get("graph"),
        "copy_gbs": max(copies, default=None), "link_gbs": max(links, default=None), "rows": rows,
    }}  # fmt: skip
    wrong = [row for row in rows if row["nwrong"]]
    astray = [row for row in rows if row["plan"] and stage.plan not in row["plan"]]
    if wrong:
        answer["failure"] = f"{wrong[0]['nwrong']:.0f} wrong elements at {wrong[0]['bytes']} bytes"
    elif astray:
        answer["failure"] = (
            f"at {astray[0]['bytes']} bytes it ran as '{astray[0]['plan']}', not as '{stage.plan}'"
        )
    elif not rows:
        answer["failure"] = "it measured nothing"
    return answer


# A communicator's WARN where GPUs of a host do not reach each other's memory (P2pCheck).
ASTRAY = re.compile(r"^.*host memory, which is slower.*$", re.MULTILINE)


def read_p2p(stage, text: str, path: str) -> dict:
    """A benchmark between GPUs that must not go through host memory."""
    answer = read_bench(stage, text, path)
    astray = ASTRAY.search(text)
    return {"failure": astray.group(), **answer} if astray else answer


def read_lines(stage, text: str, path: str) -> dict:
    """A JSON object a line, among other lines."""
    rows = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                rows.append(whole(json.loads(line)))
            except ValueError:
                pass
    return {"numbers": {"rows": rows}} if rows else {"failure": first_telling_line(text)}


def read_contestant(stage, text: str, path: str) -> dict:
    """Lines of an all-reduce, with its bus bandwidth."""
    answer = read_lines(stage, text, path)
    for row in (answer.get("numbers") or {}).get("rows", []):
        n, size, us = (number(row.get(key)) for key in ("ranks", "bytes", "us"))
        if n and size and us:
            row["gbs"] = 2 * (n - 1) / n * size / us / 1e3
            row["bus_gbs_a_cta"] = row["gbs"] / stage.facts.get("ctas", 1)
        row["plan"] = f"{row.get('form')}; NCCL {row.get('version')}"
    return answer


def read_beside(stage, text: str, path: str) -> dict:
    document = load(path)
    if not isinstance(document, dict):
        return {}
    keep = ("ours", "theirs", "complete", "medians", "not_run")
    return {"numbers": {key: document.get(key) for key in keep}}


def read_probe(stage, text: str, path: str) -> dict:
    """gpu_probe's document, which it writes anew after each question, and what does not hold."""
    document = load(path)
    if not isinstance(document, dict):
        return {"failure": first_telling_line(text), "probe": {"error": text}}
    status = {name: one.get("status") for name, one in (document.get("probes") or {}).items()}
    astray = [f"{name} was {word}" for name, word in status.items()
              if word not in ("ok", "unsupported")]  # fmt: skip
    untrue = [one for one in document.get("assumptions") or [] if one.get("holds") is False]
    remarks = [f"it does not hold that {one.get('assumption')}: {one.get('seen')}"
               for one in untrue]  # fmt: skip
    answer = {"numbers": {"status": status}, "remarks": remarks, "probe": document}
    asked = (document.get("probes") or {}).get(stage.facts.get("rows_of"), {}).get("values") or {}
    answer["numbers"]["rows"] = [
        {"kernel": name, "us": one["value"] / 1000}
        for name, one in asked.items()
        if isinstance(one, dict) and one.get("unit") == "ns" and number(one.get("value"))
    ]
    return {**answer, "failure": ", ".join(astray)} if astray else answer


def read_tune(stage, text: str, path: str) -> dict:
    """The file that rondo tune wrote, which becomes one of the results."""
    try:
        written = pathlib.Path(path).read_text()
    except OSError:
        return {"failure": first_telling_line(text)}
    rates = written.partition("\ngpu ")[2].splitlines()
    if not rates:
        return {"failure": "it measured no rate of a GPU"}
    pairs = [line.split() for line in rates[1:] if line != "end"]
    return {"numbers": {"gpu": rates[0], "ns": {name: number(ns) for name, ns in pairs}},
            "tune": written}  # fmt: skip


# Columns of ncu's raw page that show how many bytes are in flight, and what warps wait for. The
# share of DRAM has another name since compute capability 8.0.
COUNTED = {
    "gpu__time_duration.sum": "time",
    "dram__bytes.sum.per_second": "dram_rate",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram_percent",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "dram_percent",
    "lts__t_sector_hit_rate.pct": "l2_hit_percent",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps_active_percent",
    "smsp__warps_active.avg.per_cycle_active": "warps_active_a_scheduler",
    "smsp__issue_active.avg.per_cycle_active": "issued_a_cycle",
    "launch__registers_per_thread": "registers",
    "launch__grid_size": "grid",
    "launch__block_size": "block",
    "launch__occupancy_limit_registers": "ctas_by_registers",
}
STALL = re.compile(r"^smsp__average_warps_issue_stalled_(?!.*_not_issued)(\w+)_per_issue_active")
SCHEDULERS, LANES, WIDTH = 4, 32, 16


def read_counters(stage, text: str, path: str) -> dict:
    """ncu --csv --page raw: a line of names, one of units, one for every kernel."""
    try:
        text = pathlib.Path(path).read_text(errors="replace")  # its own log
    except OSError:
        pass
    lines = [line for line in text.splitlines() if line.startswith('"')]
    table = list(csv.reader(io.StringIO("\n".join(lines))))
    if len(table) < 3:
        return {"failure": first_telling_line(text)}
    names, units, kernels = table[0], table[1], []
    for line in table[2:]:
        cells = dict(zip(names, line))
        one: dict = {"kernel": cells.get("Kernel Name", "")[:80]}
        for metric, short in COUNTED.items():
            if metric in cells:
                one[short] = number(cells[metric])
                if unit := dict(zip(names, units)).get(metric):
                    one[short + "_unit"] = unit
        stalls = {hit[1]: number(cells.get(name)) for name in names if (hit := STALL.match(name))}
        ranked = sorted(((v, k) for k, v in stalls.items() if v), reverse=True)
        one["stalls"] = {key: value for value, key in ranked[:6]}
        waiting, issued = stalls.get("long_scoreboard"), one.get("issued_a_cycle")
        if waiting and issued:  # warps that wait for memory, each for one load of 16 bytes per lane
            one["bytes_in_flight_a_multiprocessor_at_least"] = round(
                waiting * issued * SCHEDULERS * LANES * WIDTH
            )
        kernels.append(one)
    return {"numbers": {"kernels": kernels}, "remarks": [in_short(one) for one in kernels[:1]]}


def in_short(kernel: dict) -> str:
    stalls = ", ".join(f"{name} {value:.1f}" for name, value in list(kernel["stalls"].items())[:3])
    flight = kernel.get("bytes_in_flight_a_multiprocessor_at_least")
    return (f"DRAM at {kernel.get('dram_percent') or '?'} % of its peak; warps that wait for each "
            f"that issues: {stalls or '?'}; bytes in flight a multiprocessor: at least "
            f"{flight or '?'}")  # fmt: skip


READERS = {
    "text": read_text, "gtest": read_gtest, "racecheck": read_racecheck, "bench": read_bench,
    "p2p": read_p2p,
    "lines": read_lines, "beside": read_beside, "contestant": read_contestant,
    "probe": read_probe, "counters": read_counters, "tune": read_tune,
}  # fmt: skip
