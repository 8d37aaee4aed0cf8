# SPDX-License-Identifier: Apache-2.0
"""check_watch.py PLUGIN FOREIGN COMMAND: librondo-watch.so exports the profiler plugin alone, and
is small where librondo.so.1 has its code. Loaded as NCCL loads it, into a program that has another
NCCL, it replaces no symbol of the program and starts nothing. Ranks of Rondo in the same process,
made earlier or later, are shown beside the watched one."""

import contextlib
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

VERSIONS = range(1, 8)
HASH = 0xABCD
LONGEST_WAIT = 300


class Table(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("functions", ctypes.c_void_p * 5)]


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def load(plugin: str) -> ctypes.CDLL:
    return ctypes.CDLL(plugin, mode=os.RTLD_NOW | os.RTLD_LOCAL)


def watch_a_rank(plugin: str) -> None:
    """As NCCL does for a rank of two, with version 6 of the interface."""
    whole = ctypes.c_int
    kinds = (ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint64, ctypes.POINTER(whole),
             ctypes.c_char_p, whole, whole, whole, ctypes.c_void_p)  # fmt: skip
    table = Table.in_dll(load(plugin), "ncclProfiler_v6")
    init = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(table.functions[0])
    context, mask = ctypes.c_void_p(), ctypes.c_int()
    assert init(ctypes.byref(context), HASH, ctypes.byref(mask), b"watched", 1, 2, 1, None) == 0
    assert mask.value != 0


def make_a_rank(plugin: str) -> None:
    library = ctypes.CDLL(str(pathlib.Path(plugin).with_name("librondo.so.1")))
    library.ncclCommInitRank.argtypes = (
        ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, UniqueId, ctypes.c_int)  # fmt: skip
    unique, comm = UniqueId(), ctypes.c_void_p()
    assert library.ncclGetUniqueId(ctypes.byref(unique)) == 0
    assert library.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0) == 0


def what_runs() -> tuple:
    return (
        sorted(os.listdir("/proc/self/task")),
        [os.readlink(f"/proc/self/fd/{fd}") for fd in range(3, 64) if is_open(fd)],
        dict(os.environ),
        os.listdir(os.environ["RONDO_STATUS_DIR"]),
    )


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def loading(plugin: str, foreign: str, command: str) -> None:
    program = ctypes.CDLL(foreign, mode=os.RTLD_GLOBAL | os.RTLD_NOW)
    before = what_runs()
    library = load(plugin)
    assert what_runs() == before, (before, what_runs())
    for version in VERSIONS:
        table = Table.in_dll(library, f"ncclProfiler_v{version}")
        assert table.name == b"RondoWatch" and all(table.functions), version
    everywhere = ctypes.CDLL(None)
    assert everywhere.ncclAllReduce() == 4711 and everywhere.pncclAllReduce() == 4711
    assert program.version_that_the_program_sees() == 99999
    for name in ("rondoGetVersion", "ncclProfiler_v6", "ncclCommInitRank"):
        assert not hasattr(everywhere, name), name
    watch_a_rank(plugin)
    assert len(what_runs()[0]) == len(before[0]) + 1, "the watch has one thread"
    assert everywhere.ncclAllReduce() == 4711 and not hasattr(everywhere, "rondoGetVersion")


def beside_ranks(plugin: str, command: str, steps: list) -> None:
    """The process answers for both communicators, or for the watched one where its own have no
    status."""
    for step in steps:
        step(plugin)
    has_status = os.environ.get("NCCL_RAS_ENABLE") != "0"
    until = time.monotonic() + LONGEST_WAIT
    while True:
        job = shown(command)
        hashes = {int(one["hash"], 16) for one in job.get("communicators", [])}
        sockets = [one for one in os.listdir(os.environ["RONDO_STATUS_DIR"]) if "-" in one]
        found = len(sockets) == 1 and HASH in hashes and (len(hashes) == 2 or not has_status)
        if found or time.monotonic() > until:
            break
        time.sleep(0.05)
    assert found, (sockets, job)


def shown(command: str) -> dict:
    asked = subprocess.run([command, "ps", str(os.getpid()), "--json"], capture_output=True)
    with contextlib.suppress(json.JSONDecodeError):
        return json.loads(asked.stdout)
    return {}


CASES = {
    "loading": ({}, loading),
    "watched first": ({}, lambda p, f, c: beside_ranks(p, c, [watch_a_rank, make_a_rank])),
    "watched later": ({}, lambda p, f, c: beside_ranks(p, c, [make_a_rank, watch_a_rank])),
    "without status": (
        {"NCCL_RAS_ENABLE": "0", "RONDO_METRICS": "%f/metrics.prom"},
        lambda p, f, c: beside_ranks(p, c, [make_a_rank, watch_a_rank]),
    ),
}


def exports_the_plugin_alone(plugin: str) -> None:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", plugin], check=True, capture_output=True, text=True
    )
    names = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert names == {f"ncclProfiler_v{version}" for version in VERSIONS}, names
    needed = subprocess.run(["readelf", "-d", plugin], capture_output=True, text=True).stdout
    if "[librondo.so.1]" in needed:
        size = os.path.getsize(plugin)
        assert size < 64 << 10, f"{size} bytes: it has code of its own"


def main() -> None:
    plugin, foreign, command, *case = sys.argv[1:]
    if case:
        CASES[case[0]][1](plugin, foreign, command)
        return
    exports_the_plugin_alone(plugin)
    for name, (variables, _) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            mine = {key: value.replace("%f", folder) for key, value in variables.items()}
            environment = {**os.environ, "RONDO_STATUS_DIR": folder, **mine}
            command_line = [sys.executable, __file__, plugin, foreign, command, name]
            done = subprocess.run(command_line, env=environment)
        assert done.returncode == 0, f"{name}: {done.returncode}"
        print(name, "passed")


if __name__ == "__main__":
    main()
