#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strangers at the port where the watched processes of several hosts meet, and at their others.

  watch_strangers.py TRUST_JOB PLUGIN RONDO [--visits 200] [--rows GLOB]

Runs itself in a separate network namespace. A watched job of four ranks on two pretended hosts runs
while strangers visit its listening ports, or have taken the ports to meet at first. A row fails if
the two hosts do not find each other (`rondo ps` of rank 0 must show all four ranks; where strangers
have all ports, it shows the two of its host), if the job fails, if a visitor gets more than an
answer to its greeting, if a taken port receives more than greetings, or if a process holds over 64
descriptors more. Exit status 77: not permitted here.
"""

import argparse
import fnmatch
import json
import multiprocessing
import os
import random
import select
import socket
import subprocess
import sys
import tempfile
import time

import visitors
from strangers import MAX_BYTES_A_VISIT, MAX_MORE_DESCRIPTORS, alone, descriptors_of, family_of

FIRST_PORT, PORTS = 28030, 4
RANKS = 4
LONGEST_S = 300.0  # that the hosts may take to find each other, on a busy machine
SECRET = "a secret of the job that nobody else has"
# name, kind of visitors ("": none), ports that strangers have taken, what these do
ROWS = [
    ("nobody", "", 0, ""),
    ("silent", "silent", 0, ""),
    ("flood", "flood", 0, ""),
    ("garbage", "garbage", 0, ""),
    ("replay", "replay", 0, ""),
    ("thief", "thief", 0, ""),
    ("first-port-silent", "", 1, "silent"),
    ("first-port-garbage", "", 1, "garbage"),
    ("all-ports-garbage", "", PORTS, "garbage"),
]


def take_ports(count, answer, results, end):
    """Listens at the first ports, as a stranger that was there before the job."""
    listeners = [socket.create_server(("127.0.0.1", FIRST_PORT + i)) for i in range(count)]
    results.send("listening")
    received = {}
    while not end.poll():
        for one in select.select([*listeners, *received], [], [], 0.05)[0]:
            if one in listeners:
                guest = one.accept()[0]
                received[guest] = b""
                if answer == "garbage":
                    guest.send(random.randbytes(random.choice((1, 40, 1000))))
                continue
            try:
                data = one.recv(65536)
            except OSError:
                data = b""
            received[one] += data
            if not data:
                results.send(received.pop(one))
                one.close()
    for data in received.values():
        results.send(data)
    results.send(None)


def ranks_shown(rondo, pid, environment):
    """Of the job's communicator, as rondo ps of that process tells."""
    asked = subprocess.run(
        [rondo, "ps", str(pid), "--json", "--hosts"],
        capture_output=True,
        text=True,
        env={**environment, "RONDO_STATUS_DIR": environment["RONDO_STATUS_DIR"] + "/0"},
    )
    try:
        answer = json.loads(asked.stdout)
    except ValueError:
        return 0, asked.stdout + asked.stderr
    shown = [
        rank
        for communicator in answer.get("communicators", [])
        for rank in communicator["ranks"]
        if rank["state"] == "running"
    ]
    return len(shown), asked.stdout


def run_row(row, options, folder):
    name, kind, taken, answer = row
    failures = []
    sockets = os.path.join(folder, name)
    os.mkdir(sockets, 0o700)
    environment = {
        **os.environ,
        "NCCL_PROFILER_PLUGIN": options.plugin,
        "NCCL_RAS_ENABLE": "0",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_FAMILY": "AF_INET",
        "MASTER_ADDR": "127.0.0.1",
        "RONDO_RECORD": "0",
        "RONDO_STATUS_DIR": sockets,
        "RONDO_WATCH_SECRET": SECRET,
        "RONDO_INIT_TIMEOUT": "300",
    }
    ours, theirs = multiprocessing.Pipe()
    if taken:
        end_here, end_there = multiprocessing.Pipe()
        stranger = multiprocessing.Process(
            target=take_ports, args=(taken, answer, theirs, end_there), daemon=True
        )
        stranger.start()
        ours.recv()
    if kind:
        os.environ["TRUST_VISITOR_UID"] = ""
        stranger = multiprocessing.Process(
            target=visitors.visit, args=(kind, "tcp", options.visits, 60.0, theirs), daemon=True
        )
        stranger.start()
    job = subprocess.Popen(
        [options.job, str(RANKS), "watched", "2"], env=environment, stdin=subprocess.PIPE
    )
    wanted = RANKS // 2 if taken == PORTS else RANKS
    shown, text, descriptors = 0, "", 0
    end = time.monotonic() + LONGEST_S
    # Where they must not find each other, until all of them have tried.
    tries_until = time.monotonic() + (12 if taken == PORTS else 0)
    while time.monotonic() < end and job.poll() is None:
        family = family_of(job.pid)
        descriptors = max([descriptors, *map(descriptors_of, family)])
        visiting = kind and stranger.is_alive() and not ours.poll()
        if len(family) > RANKS:
            shown, text = ranks_shown(options.rondo, family[1], environment)
        if shown == wanted and not visiting and time.monotonic() >= tries_until:
            break
        time.sleep(0.1)
    if shown != wanted:
        failures.append(f"{shown} ranks are shown, not {wanted}: {text}")
    job.stdin.close()
    if job.wait(400) != 0:
        failures.append(f"the job ended with {job.returncode}")
    got = {"visits": 0, "max_bytes": 0, "descriptors": 0}
    if kind:
        got = ours.recv()
        if got["visits"] == 0:
            failures.append("no visitor found a door")
    if taken:
        end_here.send("end")
        for received in iter(ours.recv, None):
            got["visits"] += 1
            got["max_bytes"] = max(got["max_bytes"], len(received))
            if b"own" in received or b"{" in received[:8] or SECRET.encode() in received:
                failures.append(f"a stranger's port was told {received[:200]}")
        if got["visits"] == 0:
            failures.append("nobody came to the port that was taken")
    stranger_got = got["max_bytes"]
    if stranger_got > MAX_BYTES_A_VISIT or got["descriptors"]:
        failures.append(f"a stranger was told {stranger_got} bytes")
    return {"visits": got["visits"], "bytes": stranger_got, "held": descriptors}, failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("job")
    parser.add_argument("plugin")
    parser.add_argument("rondo")
    parser.add_argument("--visits", type=int, default=200, help="of each row")
    parser.add_argument("--rows", default="*")
    options = parser.parse_args()
    alone()
    failed, held_alone = False, None
    print("| stranger | connections | bytes told, max. | descriptors of a process |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for row in ROWS:
            if row[0] != "nobody" and not fnmatch.fnmatch(row[0], options.rows):
                continue
            got, failures = run_row(row, options, folder)
            held_alone = got["held"] if held_alone is None else held_alone
            if got["held"] > held_alone + MAX_MORE_DESCRIPTORS:
                failures.append(f"a process held {got['held']} descriptors, else {held_alone}")
            print(f"| {row[0]} | {got['visits']} | {got['bytes']} | {got['held']} |", flush=True)
            for failure in failures:
                print(f"FAILED: {row[0]}: {failure}", flush=True)
            failed |= bool(failures)
    sys.exit(failed)


if __name__ == "__main__":
    main()
