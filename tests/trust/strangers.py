#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strangers connect to a job's listeners while it makes and splits communicators.

  strangers.py TRUST_JOB [--visits 1000] [--rows GLOB] [--json FILE]

Runs itself in a separate network namespace, so that no other job of the machine is visited. Every
row is one kind of stranger at one kind of listener, as root or as another user. Batches of rounds
of the job with visitors at its listeners alternate with batches in which the same visitors connect
to an unused port. A row fails if a job failed (a lost seat or a wrong sum ends it), if a visitor
got a descriptor or more than an answer to its greeting, if a process held over 64 descriptors more,
or if no visitor came. Exit status 77: not permitted here.
"""

import argparse
import fnmatch
import json
import multiprocessing
import os
import select
import shutil
import socket
import statistics
import subprocess
import sys
import time

import visitors

OTHER_USER = 65534
SECONDS_A_BATCH = 60.0
MAX_MORE_DESCRIPTORS = 64
# Delay of the job's last rank behind the others: their listeners are open that long every round.
LATE_MS = 20
# The longest answer to a greeting: a Challenge. It contains no data of the job.
MAX_BYTES_A_VISIT = 1024
# kind, listener, as another user, hosts of the job
ROWS = [
    ("silent", "tcp", False, 1),
    ("silent", "tcp", False, 2),
    ("slow", "tcp", False, 2),
    ("garbage", "tcp", False, 2),
    ("replay", "tcp", False, 2),
    ("thief", "tcp", False, 2),
    ("silent", "unix", False, 1),
    ("silent", "unix", True, 1),
    ("garbage", "unix", False, 1),
    ("garbage", "unix", True, 1),
]


def name_of(row):
    kind, where, other, hosts = row
    return f"{kind}-{where}{'-other-user' if other else ''}-{hosts}-host{'s' * (hosts > 1)}"


def alone():
    """Continues in a separate network namespace that has only the loopback device."""
    if os.environ.get("TRUST_ALONE"):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    for tool in ("unshare", "ip"):
        if not shutil.which(tool):
            print(f"skipped: the command {tool} is missing")
            sys.exit(77)
    flags = ["-n"] if os.geteuid() == 0 else ["-rn"]
    if subprocess.run(["unshare", *flags, "true"], capture_output=True).returncode != 0:
        print("skipped: no network namespaces here")
        sys.exit(77)
    os.environ["TRUST_ALONE"] = "1"
    os.execvp("unshare", ["unshare", *flags, sys.executable, *sys.argv])


def keep_nobodys_port(port_end):
    """A port without a job: accepts visitors and keeps each until it leaves."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    port_end.send(listener.getsockname()[1])
    guests = []
    while True:
        for one in select.select([listener, *guests], [], [])[0]:
            if one is listener:
                guests.append(listener.accept()[0])
            elif not one.recv(65536):
                guests.remove(one)
                one.close()


def family_of(pid):
    """The process and its children that are still alive."""
    try:
        listed = open(f"/proc/{pid}/task/{pid}/children").read().split()
    except OSError:
        listed = []
    return [pid, *map(int, listed)]


def descriptors_of(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def batch(options, row, visits, only_port):
    """Runs the job as long as the visits last. Returns times of init, descriptors, and what
    visitors got."""
    kind, where, other, hosts = row
    environment = {
        **os.environ,
        "RONDO_INIT_TIMEOUT": "300",
        "NCCL_DEBUG": "VERSION",
        "NCCL_RAS_ADDR": "none",
    }  # it answers every process of this user
    os.environ["TRUST_VISITOR_UID"] = str(OTHER_USER) if other else ""
    ours, theirs = multiprocessing.Pipe(False)
    visitor = multiprocessing.Process(
        target=visitors.visit,
        args=(kind, where, visits, SECONDS_A_BATCH, theirs, only_port),
        daemon=True,
    )
    visitor.start()
    run = subprocess.Popen(
        [options.job, str(options.ranks), "0", str(hosts), str(LATE_MS)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    maximum, end = 0, time.monotonic() + SECONDS_A_BATCH
    while run.poll() is None and time.monotonic() < end and visitor.is_alive():
        maximum = max([maximum, *map(descriptors_of, family_of(run.pid))])
        time.sleep(0.003)
    run.stdin.close()
    run.stdin = None
    end = time.monotonic() + 400
    while run.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    hung = run.poll() is None
    if hung:
        for pid in reversed(family_of(run.pid)):
            os.kill(pid, 9)
    output, complaint = run.communicate()
    got = ours.recv() if ours.poll(400) else {}
    visitor.join(10)
    times = [json.loads(line)["init"] for line in output.splitlines() if line.startswith("{")]
    return {
        "status": "hung" if hung else run.returncode,
        "complaint": complaint.strip().splitlines()[:3],
        "times": times,
        "descriptors": maximum,
        **got,
    }


def run_row(row, options, nobody):
    """Runs all batches of a row, until the visits have been made."""
    result = {"row": name_of(row), "visits": 0, "bytes": 0, "max_bytes": 0, "descriptors": 0}
    beside, alone_times, maximum, max_alone, failures = [], [], 0, 0, []
    for _ in range(60):
        left = options.visits - result["visits"]
        if left <= 0:
            break
        here = batch(options, row, min(left, 1000), None)
        same = row[0] if row[1] == "tcp" else "silent"
        there = batch(options, (same, "tcp", *row[2:]), min(left, 1000), nobody)
        for key in ("visits", "bytes", "descriptors"):
            result[key] += here.get(key, 0)
        result["max_bytes"] = max(result["max_bytes"], here.get("max_bytes", 0))
        beside += here["times"]
        alone_times += there["times"]
        maximum, max_alone = max(maximum, here["descriptors"]), max(max_alone, there["descriptors"])
        if here["status"] != 0:
            failures.append(f"the job ended with {here['status']}: {' '.join(here['complaint'])}")
            break
    result["more_descriptors_of_the_job"] = maximum - max_alone
    if beside and alone_times:
        result["init_s"] = statistics.median(beside)
        result["init_alone_s"] = statistics.median(alone_times)
        result["init_ratio"] = round(result["init_s"] / result["init_alone_s"], 3)
    if result["visits"] == 0:
        failures.append("no visitor found a door")
    if result["descriptors"]:
        failures.append(f"visitors were given {result['descriptors']} descriptors")
    if result["max_bytes"] > MAX_BYTES_A_VISIT:
        failures.append(f"a visitor was told {result['max_bytes']} bytes")
    if maximum - max_alone > MAX_MORE_DESCRIPTORS:
        failures.append(f"a process held {maximum - max_alone} descriptors more")
    result["failures"] = failures
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("job")
    parser.add_argument("--visits", type=int, default=1000, help="of each row")
    parser.add_argument("--rows", default="*")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--json")
    options = parser.parse_args()
    alone()
    here, there = multiprocessing.Pipe(False)
    multiprocessing.Process(target=keep_nobodys_port, args=(there,), daemon=True).start()
    nobody = here.recv()
    results = []
    print(
        "| stranger | visits | seats | bytes told, max. a visit | descriptors given | descriptors "
        "more of a process | init / beside an unused port |"
    )
    print("|---|---|---|---|---|---|---|")
    for row in ROWS:
        if not fnmatch.fnmatch(name_of(row), options.rows):
            continue
        if row[2] and os.geteuid() != 0:
            print(f"skipped: {name_of(row)}: only root can become another user")
            continue
        one = run_row(row, options, nobody)
        results.append(one)
        print(
            f"| {one['row']} | {one['visits']} | {'?' if one['failures'] else 0} | "
            f"{one['max_bytes']} | {one['descriptors']} | {one['more_descriptors_of_the_job']} | "
            f"{one.get('init_ratio', '?')} |",
            flush=True,
        )
        for failure in one["failures"]:
            print(f"FAILED: {one['row']}: {failure}", flush=True)
        if options.json:
            with open(options.json, "w") as file:
                json.dump(results, file, indent=1)
    if not results:
        sys.exit(f"no row is named {options.rows}: {', '.join(map(name_of, ROWS))}")
    sys.exit(any(one["failures"] for one in results))


if __name__ == "__main__":
    main()
