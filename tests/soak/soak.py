#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes, splits, uses, kills and destroys communicators at random, for the given time.

  soak.py SOAK_RANK [--minutes 5] [--seed N] [--only KIND] [--json FILE]

Two network namespaces, joined by a wire that loses packets on demand, each hold two long-lived
processes. An episode is one communicator over some of them, with one to three ranks per process,
beside two busy loops. Kinds of episodes: calm; a process killed; a rank that aborts; packets lost;
all packets lost; packets that pass one way only. Afterwards every long-lived process must have
ended its calls, with success or with an error that names a rank or an address. What it holds
(descriptors, threads, resident and virtual memory) must be flat over the whole run. A seed repeats
the same episodes. Exit status 77: not permitted here.
"""

import argparse
import collections
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time

from wire import Wire
from worker import Worker

# RONDO_TIMEOUT and RONDO_INIT_TIMEOUT of all ranks. A lost SYN costs 1, 3, then 7 seconds: with a
# shorter timeout, some calls would rightly fail on a network that loses 5 % of the packets.
TIMEOUT_S = 20
SLACK_S = 60  # extra time for a loaded machine
WEIGHTS = {"calm": 55, "kill": 15, "abort": 10, "lossy": 12, "blackhole": 4, "one-way": 4}
MAY_FAIL = {"kill", "abort", "blackhole", "one-way"}
NAMES_CULPRIT = re.compile(r"rank \d|ranks \d|\d+\.\d+\.\d+\.\d+|process \d|pid \d")
# Limits of growth between the second and the last quarter of a run; steady growth exceeds them.
MAX_GROWTH = {"descriptors": 0, "threads": 0, "rss_kb": 16384, "virtual_kb": 262144}


def alone():
    """Continues in separate network and mount namespaces."""
    if os.environ.get("SOAK_ALONE"):
        subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"):
        print("skipped: needs root and the commands unshare and ip")
        sys.exit(77)
    if subprocess.run(["unshare", "-nm", "true"], capture_output=True).returncode != 0:
        print("skipped: no network namespaces here")
        sys.exit(77)
    if not os.path.exists("/dev/net/tun"):
        print("skipped: no TUN devices here")
        sys.exit(77)
    os.environ["SOAK_ALONE"] = "1"
    os.execvp("unshare", ["unshare", "-nm", sys.executable, *sys.argv])


class Soak:
    def __init__(self, options):
        self.options = options
        self.dice = random.Random(options.seed)
        self.spaces = ["soak-a", "soak-b"]
        for space in self.spaces:
            subprocess.run(["ip", "netns", "add", space], check=True)
            subprocess.run(["ip", "-n", space, "link", "set", "lo", "up"], check=True)
        self.wire = Wire(self.spaces, options.seed)
        self.workers = [self.start(space) for space in self.spaces for _ in range(2)]
        self.counts = collections.Counter()
        self.errors = collections.Counter()
        self.failures = []
        self.held = []  # one dictionary per episode: worker -> what it holds

    def start(self, space):
        return Worker(self.options.rank, space, TIMEOUT_S)

    def episode(self, number):
        kind = self.options.only or self.dice.choices(list(WEIGHTS), WEIGHTS.values())[0]
        seed = self.dice.randrange(1 << 31)
        across = kind in ("lossy", "blackhole", "one-way") or self.dice.random() < 0.5
        if across:
            players = [self.workers[0], self.workers[2]]
            players += [w for w in (self.workers[1], self.workers[3]) if self.dice.random() < 0.4]
        else:
            players = self.workers[:2] if self.dice.random() < 0.5 else self.workers[2:]
        victim = None
        if kind == "kill":
            victim = self.start(self.dice.choice([p.space for p in players]))
            players = [*players, victim]
        self.dice.shuffle(players)
        shares = [self.dice.randint(1, 3) for _ in players]
        size = sum(shares)
        aborter = self.dice.randrange(size) if kind == "abort" else -1
        after = self.dice.random() * 0.3
        loss = (self.dice.uniform(0.01, 0.05),) * 2
        if kind == "lossy":
            self.wire.lose(*loss)
        if victim is players[0]:  # the rank that makes the id must live, or none can join
            players[0], players[-1] = players[-1], players[0]
            shares[0], shares[-1] = shares[-1], shares[0]
        hexadecimal = players[0].make_id()
        first = 0
        for player, share in zip(players, shares):
            player.begin(f"episode {seed} {size} {first} {share} {aborter} {hexadecimal}")
            first += share
        time.sleep(after)
        if victim:
            victim.kill()
        if kind == "blackhole":
            self.wire.lose(1.0, 1.0)
        if kind == "one-way":
            self.wire.lose(1.0, 0.0) if self.dice.random() < 0.5 else self.wire.lose(0.0, 1.0)
        self.check(number, kind, [p for p in players if p is not victim])
        self.wire.lose(0.0, 0.0)

    def check(self, number, kind, players):
        self.counts[kind] += 1
        end = time.monotonic() + 3 * TIMEOUT_S + SLACK_S
        for player in players:
            outcomes = player.outcomes(end)
            if outcomes is None:
                self.fail(number, kind, f"{player.name} hangs or has died ({player.state()})")
                continue
            for outcome in outcomes:
                if outcome.split()[2] == "ok":
                    continue
                text = outcome.split(" ", 4)[4] if outcome.count(" ") > 3 else ""
                if "wrong data" in text or kind not in MAY_FAIL:
                    self.fail(number, kind, outcome)
                elif not NAMES_CULPRIT.search(text):
                    self.fail(number, kind, f"names nobody: {outcome}")
                else:
                    self.errors[kind] += 1

    def fail(self, number, kind, what):
        self.failures.append(f"episode {number} ({kind}): {what}")
        print(f"FAILED: {self.failures[-1]}; repeat: --seed {self.options.seed}", flush=True)

    def run(self):
        end, number = time.monotonic() + 60 * self.options.minutes, 0
        printed_at = time.monotonic()
        while time.monotonic() < end and len(self.failures) < 5:
            self.episode(number)
            self.held.append({w.name: w.holds() for w in self.workers})
            number += 1
            if time.monotonic() - printed_at > 60:
                printed_at = time.monotonic()
                print(f"{number} episodes: {dict(self.counts)}", flush=True)
        return number

    def growth(self):
        """The growth from the median of the run's second quarter to that of its last."""
        quarter = len(self.held) // 4
        table = {}
        for key, limit in MAX_GROWTH.items():
            for name in self.held[0]:
                begin = [h[name][key] for h in self.held[quarter : 2 * quarter]]
                last = [h[name][key] for h in self.held[-quarter:]]
                if not begin:
                    continue
                before, after = statistics.median(begin), statistics.median(last)
                table[f"{name} {key}"] = (before, after)
                if after - before > limit:
                    self.failures.append(f"{name}: {key} grew from {before} to {after}")
        return table


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rank")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", choices=list(WEIGHTS))
    parser.add_argument("--json")
    options = parser.parse_args()
    options.rank = os.path.abspath(options.rank)
    alone()
    print(f"seed {options.seed}, {options.minutes} minutes", flush=True)
    loop = f"import os\nwhile os.getppid() == {os.getpid()}: pass"  # ends with this program
    busy = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(2)]
    try:
        soak = Soak(options)
        number = soak.run()
        growth = soak.growth()
    finally:
        for one in busy:
            one.kill()
    for worker in soak.workers:
        worker.kill()
    soak.wire.end()
    print(
        f"{number} episodes of seed {options.seed}; ranks that ended with an error that names who:"
    )
    print("| kind | episodes | named errors |\n|---|---|---|")
    for kind in WEIGHTS:
        print(f"| {kind} | {soak.counts[kind]} | {soak.errors[kind]} |")
    print("| held, median | second quarter | last quarter |\n|---|---|---|")
    for name, (before, after) in growth.items():
        print(f"| {name} | {before:.0f} | {after:.0f} |")
    for failure in soak.failures:
        print(f"FAILED: {failure}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(
                {
                    "seed": options.seed,
                    "minutes": options.minutes,
                    "episodes": soak.counts,
                    "named_errors": soak.errors,
                    "growth": growth,
                    "failures": soak.failures,
                },
                file,
                indent=1,
            )
    sys.exit(bool(soak.failures))


if __name__ == "__main__":
    main()
