# SPDX-License-Identifier: Apache-2.0
"""Compares Rondo with NVIDIA's NCCL on the same device, in turns, in one run.

  beside.py --contestant build/cuda/bin/nccl_contestant --ours build/cuda/lib/libnccl.so.2
            [--theirs PATH] [--ranks 1,2] [--sizes 4,65536] [--collectives all_reduce]
            [--rounds 3] [--seconds 100] [--json FILE]

--theirs is by default the library that PyTorch brings. The contestant runs on each library in turn,
once per round, and prints the time of a call; a line of the table has the medians over rounds and
their ratio (above 1: Rondo is faster). NCCL up to 2.29 refuses several ranks on one device; there
each rank gets its own NCCL_HOSTID, and its traffic uses sockets. From 2.30 on
NCCL_MULTI_RANK_GPU_ENABLE=1 allows them. The table also lists what NCCL cannot run, with its error,
and what did not fit into --seconds. The JSON is rewritten after every run, with "complete": false
until the last, so an interrupted comparison keeps its results. Ends with 1 if Rondo failed, or hung
for --limit seconds.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

COLLECTIVES = "all_reduce,all_gather,reduce_scatter,broadcast,all_to_all"


def of_pytorch() -> str | None:
    try:
        import nvidia
    except ImportError:
        return None
    for folder in nvidia.__path__:
        for library in pathlib.Path(folder).glob("nccl/lib/libnccl.so.2"):
            return str(library)
    return None


def version_of(library: str) -> int:
    """Asked in another process, because a loaded library stays loaded."""
    code = "import ctypes, sys; v = ctypes.c_int(); ctypes.CDLL(sys.argv[1]).ncclGetVersion("
    done = subprocess.run(
        [sys.executable, "-c", code + "ctypes.byref(v)); print(v.value)", library],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{library}: {done.stderr.strip().splitlines()[-1]}")
    return int(done.stdout.split()[-1])


def count_devices() -> int:
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
        return max(done.stdout.count("GPU "), 1)
    except OSError:
        return 1


class Contestant:
    def __init__(self, name: str, library: str, options: argparse.Namespace) -> None:
        self.name, self.library, self.options = name, library, options
        self.version = version_of(library)
        self.failed: dict[tuple[str, int], str] = {}
        self.hung: set[int] = set()  # numbers of ranks with which it hung

    def run(self, collective: str, ranks: int, seconds: float) -> list[dict]:
        """The lines of one run; empty, with the reason recorded, if it failed now or before."""
        if (collective, ranks) in self.failed or ranks in self.hung:
            return []
        sizes = [size for size in self.options.sizes if size >= 4 * ranks]
        command = [self.options.contestant, "--library", self.library, "--ranks", str(ranks),
                   "--collective", collective, "--sizes", ",".join(map(str, sizes)),
                   "--iterations", str(self.options.iterations)]  # fmt: skip
        environment = dict(os.environ)
        if self.name == "theirs" and ranks > self.options.devices:
            if self.version >= 23000:
                environment["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"
            else:
                command.append("--separate-hosts")
                environment.setdefault("NCCL_SOCKET_IFNAME", "lo")
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                output, errors = process.communicate(timeout=seconds)
                reason = (errors.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)  # and its ranks
                output, errors = process.communicate()
                process.returncode, reason = 124, f"not finished within {seconds:.0f} s"
                self.hung.add(ranks)
        if process.returncode != 0:
            self.failed[collective, ranks] = reason
        return [{"library": self.name, **json.loads(line)} for line in output.splitlines()]


def medians(lines: list[dict]) -> list[dict]:
    found: dict[tuple, dict[str, list[float]]] = {}
    for line in lines:
        key = (line["collective"], line["ranks"], line["form"], line["bytes"])
        found.setdefault(key, {}).setdefault(line["library"], []).append(line["us"])
    rows = []
    for (collective, ranks, form, size), times in sorted(found.items()):
        row = {"collective": collective, "ranks": ranks, "form": form, "bytes": size}
        for name in ("ours", "theirs"):
            row[f"{name}_us"] = statistics.median(times[name]) if name in times else None
        if row["ours_us"] and row["theirs_us"]:
            row["ratio"] = row["theirs_us"] / row["ours_us"]
        rows.append(row)
    return rows


def print_table(rows: list[dict]) -> None:
    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    print(f"{'collective':>14} ranks   form      bytes    Rondo us     NCCL us  ratio")
    for row in rows:
        print(f"{row['collective']:>14} {row['ranks']:>5} {row['form']:>6} {row['bytes']:>10}"
              f" {number(row['ours_us']):>11} {number(row['theirs_us']):>11}"
              f" {number(row.get('ratio')):>6}")  # fmt: skip


class Results:
    """The measurements so far, and what could not be measured."""

    def __init__(self, options: argparse.Namespace, contestants: list[Contestant]) -> None:
        self.options, self.contestants = options, contestants
        self.lines: list[dict] = []
        self.late: list[tuple[str, str, int]] = []  # runs for which no time was left

    def not_run(self) -> list[str]:
        found = [
            f"{one.name} (version {one.version}), {collective}, {ranks} ranks: {reason}"
            for one in self.contestants
            for (collective, ranks), reason in one.failed.items()
        ]
        found += [f"{name}, {kind}, {ranks} ranks: no time left" for name, kind, ranks in self.late]
        if not self.options.theirs:
            found.append("theirs: PyTorch brings no libnccl.so.2 here, and no --theirs names one")
        return found

    def write(self, complete: bool) -> None:
        """Writes the file atomically, even if this process is killed."""
        if not self.options.json:
            return
        what = {one.name: {"path": one.library, "version": one.version} for one in self.contestants}
        report = {**what, "complete": complete, "medians": medians(self.lines),
                  "lines": self.lines, "not_run": self.not_run()}  # fmt: skip
        growing = self.options.json.with_name(self.options.json.name + ".new")
        growing.write_text(json.dumps(report, indent=1))
        growing.replace(self.options.json)


def measure(options: argparse.Namespace, results: Results) -> None:
    deadline = time.monotonic() + options.seconds
    for turn in range(options.rounds):
        for ranks in options.ranks:
            for collective in options.collectives:
                for one in results.contestants[:: 1 if turn % 2 == 0 else -1]:
                    if deadline - time.monotonic() >= options.limit:
                        results.lines += one.run(collective, ranks, options.limit)
                    elif turn == 0:
                        results.late.append((one.name, collective, ranks))
                    results.write(complete=False)


def parse() -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(word) for word in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--contestant", required=True)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--theirs", default=of_pytorch())
    parser.add_argument("--ranks", type=numbers, default=[1, 2])
    parser.add_argument("--devices", type=int, default=count_devices())
    parser.add_argument("--sizes", type=numbers, default=[8, 65536, 1 << 20, 16 << 20, 256 << 20])
    parser.add_argument("--collectives", type=lambda s: s.split(","), default=COLLECTIVES)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=100, help="for everything")
    parser.add_argument("--limit", type=float, default=20, help="seconds for one run")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if isinstance(options.collectives, str):
        options.collectives = options.collectives.split(",")
    return options


def main() -> int:
    options = parse()
    contestants = [Contestant("ours", options.ours, options)]
    if options.theirs:
        contestants.append(Contestant("theirs", options.theirs, options))
    results = Results(options, contestants)
    measure(options, results)
    results.write(complete=True)
    print_table(medians(results.lines))
    for reason in results.not_run():
        print(f"not run: {reason}")
    return 1 if contestants[0].failed else 0


if __name__ == "__main__":
    sys.exit(main())
