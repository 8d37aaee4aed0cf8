# SPDX-License-Identifier: Apache-2.0
"""Other figures of the targets: groups of calls, init, shared memory, the library's size."""
import os
import subprocess

from figures import median
from groups import Group


def shared_bytes(pids):
    """Bytes of the communicators' memory files of these processes; each file counts once."""
    files = {}
    for pid in pids:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{fd}"
            try:
                if os.readlink(path).startswith("/memfd:rondo "):
                    info = os.stat(path)
                    files[info.st_ino] = info.st_blocks * 512
            except FileNotFoundError:
                continue
    return sum(files.values())


def init_seconds(name, ranks, build, times):
    """From the first rank entering ncclCommInitRank to the last leaving it; median of several
    jobs."""
    spans = []
    for _ in range(times):
        group = Group(name, ranks, build)
        entered, left = zip(*group.joined)
        spans.append(max(left) - min(entered))
        group.close()
    return median(spans)


def grouped_ratio(build, rounds):
    """A group of 100 all-reduces of 4 KiB against 100 calls, 2 ranks."""
    group = Group("rondo", 2, build)
    alone, together = [], []
    for _ in range(rounds):
        alone.append(group.measure("all_reduce", 4096, 0.02, calls=100))
        together.append(group.measure("all_reduce", 4096, 0.02, prefix="grouped ", calls=100))
    group.close()
    return median([a / b for a, b in zip(together, alone)])


def memory(build):
    """Shared bytes per rank: one communicator of 8 ranks after large calls, and 33 of them."""
    group = Group("rondo", 8, build)
    for operation in ("all_reduce", "all_gather", "broadcast", "reduce"):
        group.measure(operation, 16 << 20, 0.01)
    one = shared_bytes(group.pids()) / 8
    group.ask("children 32")
    many = shared_bytes(group.pids()) / 8
    group.close()
    return one, many


def library_bytes(build):
    stripped = f"{build}/compare/librondo.stripped"
    subprocess.run(["strip", "-o", stripped, f"{build}/release/lib/librondo.so.1"], check=True)
    return os.path.getsize(stripped)


def measure(build, quick):
    times = 3 if quick else 9
    one, many = memory(build)
    return {
        "group_ratio": grouped_ratio(build, times),
        "init_8_processes": init_seconds("rondo", 8, build, times),
        "init_64_threads": init_seconds("rondo_threads", 64, build, times),
        "memory_per_rank": one,
        "memory_33_communicators": many,
        "library_bytes": library_bytes(build),
    }
