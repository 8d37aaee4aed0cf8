# SPDX-License-Identifier: Apache-2.0
"""The driver of bench/net_compare.sh: all-reduce of ranks on several hosts, contestants in turns.

Two hosts of one rank also send one way, and a message back and forth, compared with the bare
network: iperf3 and tcp_contestant, or ucx_perftest if Rondo uses UCX.
"""
import argparse
import itertools
import os
import statistics
import subprocess
import sys
import time

import bare
import busy
from groups import ContestantFailed, Group
from hosts import Hosts, open_mpi, start_each

SIZES = [4, 1 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20]
QUICK = [4, 1 << 20]
STREAM = 16 << 20


def parse():
    parser = argparse.ArgumentParser(prog="bench/net_compare.sh")
    add = parser.add_argument
    add("--quick", action="store_true", help="few sizes and rounds")
    add("--hosts", default="2,4")
    add("--busy", action="store_true", help="beside one busy loop a core")
    add("--gbit", help="limit each host's network to these rates, one run for each")
    add("--ranks-per-host", type=int, default=1)
    add("--sizes", help="bytes")
    add("--rounds", type=int, default=9)
    add("--budget", type=float, default=0.1, help="seconds for one measurement")
    add("--python", help="a Python with torch: Gloo stands beside")
    add("--contestants", help="only these; only by name: rondo_ucx, and openmpi5, which "
                              "bench/compare/rivals.sh installs")
    add("--build", default="build")
    add("--out", default="build/compare")
    options = parser.parse_args()
    options.hosts = [int(n) for n in options.hosts.split(",")]
    options.gbit = [float(rate) for rate in options.gbit.split(",")] if options.gbit else [None]
    options.sizes = [int(s) for s in options.sizes.split(",")] if options.sizes else SIZES
    if options.quick:
        options.hosts, options.rounds, options.budget = [2], 3, 0.03
        options.sizes = QUICK
    return options


def commands(options):
    """By name: (hosts, ranks, folder) -> command."""
    release, compare = f"{options.build}/release/bin", f"{options.build}/compare"
    rondo = [os.path.abspath(f"{release}/rondo_contestant")]
    by_ucx = ["env", "NCCL_NET=UCX", "UCX_TLS=tcp", *rondo]
    gloo = [options.python, os.path.abspath("bench/compare/gloo_contestant.py")]
    all_of_them = {
        "rondo": lambda h, n, f: start_each(h, n, f, rondo, 29931),
        "rondo_ucx": lambda h, n, f: start_each(h, n, f, by_ucx, 29951),
        "openmpi": lambda h, n, f: open_mpi(h, n, f, os.path.abspath(
            f"{compare}/contestant.openmpi_debian")),
        "openmpi5": lambda h, n, f: open_mpi(h, n, f, os.path.abspath(
            f"{compare}/contestant.openmpi"), os.path.abspath(f"{compare}/openmpi/bin/mpirun")),
        "gloo": lambda h, n, f: start_each(h, n, f, gloo, 29941),
    }
    if not options.python:
        del all_of_them["gloo"]
    if options.contestants:
        return {name: all_of_them[name] for name in options.contestants.split(",")}
    del all_of_them["rondo_ucx"], all_of_them["openmpi5"]
    return all_of_them


class HostsGroup(Group):
    def __init__(self, name, ranks, build, hosts, command):
        self.start = lambda folder: command(hosts, ranks, folder)
        super().__init__(name, ranks, build)
        if name == "rondo_ucx":
            self.joined = self.ask("join")

    def command(self):
        return self.start(self.folder)


class Pair:
    """Rondo on two hosts of one rank compared with the bare network, in turns."""

    def __init__(self, options, hosts, rondo):
        self.options, self.hosts, self.rondo = options, hosts, rondo
        self.turns, self.exchanges = [], []  # of each turn
        program = [os.path.abspath(f"{options.build}/release/bin/tcp_contestant")]
        self.idle = rondo.ask("idle 1000")
        self.by_ucx = rondo.name == "rondo_ucx"
        self.bare = None if self.by_ucx else HostsGroup(
            "bare", 2, options.build, hosts, lambda h, n, f: start_each(h, n, f, program, 29961))

    def turn(self):
        budget = self.options.budget
        to_and_fro = self.rondo.measure("all_reduce", 8, budget, prefix="to_and_fro ")
        one_way = STREAM / self.rondo.measure("broadcast", STREAM, 3 * budget) / 1e9
        if self.by_ucx:
            bare_fro = bare.ucx(self.hosts, "ucp_am_lat", 8, 20000)[0]
            bare_way = bare.ucx(self.hosts, "ucp_am_bw", 128 << 10, 8000)[1]
        else:
            bare_fro = self.bare.measure("all_reduce", 8, budget)
            bare_way = bare.stream_gbs(self.hosts, 1)
            self.exchanges.append((self.rondo.measure("all_reduce", 4, budget),
                                   self.bare.measure("barrier", 4, budget)))
        both = self.rondo.measure("all_reduce", STREAM, 3 * budget)
        self.turns.append((to_and_fro, bare_fro, one_way, bare_way, STREAM / both / 1e9))

    def lines(self):
        def ratio(a, b):
            return statistics.median(turn[a] / turn[b] for turn in self.turns)
        fro, bare_fro, way, bare_way, both = map(statistics.median, zip(*self.turns))
        theirs = "ucx_perftest" if self.by_ucx else "a TCP ping-pong"
        stream = "ucx_perftest, 128 KiB" if self.by_ucx else "iperf3"
        between, waiting, descriptors = self.idle[0]
        exchanged = []
        if self.exchanges:
            ours, bare_both = map(statistics.median, zip(*self.exchanges))
            exchanged = [
                f"{self.rondo.name}: all-reduce of 4 B {ours * 1e6:.1f} us; a TCP exchange, both "
                f"send and then receive, {bare_both * 1e6:.1f} ("
                f"{statistics.median(a / b for a, b in self.exchanges):.2f})"]
        return exchanged + [
            f"{self.rondo.name}: 8 B one way {fro * 1e6:.1f} us; {theirs} {bare_fro * 1e6:.1f}"
            f" ({ratio(0, 1):.2f})",
            f"{self.rondo.name}: broadcast of 16 MiB {way:.2f} GB/s one way; {stream}"
            f" {bare_way:.2f} ({ratio(2, 3):.2f})",
            f"{self.rondo.name}: all-reduce of 16 MiB {both:.2f} GB/s each way at once"
            f" ({ratio(4, 3):.2f} of {stream} one way)",
            f"{self.rondo.name}: {100 * between:.2f} % of a core between calls, {100 * waiting:.2f}"
            f" % in a call that waits a second; {descriptors:.0f} descriptors for its peer"]

    def close(self):
        if self.bare:
            self.bare.close()


def measure(options, hosts, count):
    ranks = count * options.ranks_per_host
    groups, cells, pairs = {}, {}, []
    loops = busy.BusyLoops(len(os.sched_getaffinity(0)) if options.busy else 0)
    try:
        loops.__enter__()
        for name, command in commands(options).items():
            groups[name] = HostsGroup(name, ranks, options.build, hosts, command)
            if ranks == 2 and not options.busy and name in ("rondo", "rondo_ucx"):
                pairs.append(Pair(options, hosts, groups[name]))
        names = list(groups)
        loops.go_on()
        for turn in range(options.rounds):
            for pair in pairs:
                pair.turn()
            for size in options.sizes:
                for name in names[turn % len(names):] + names[:turn % len(names)]:
                    seconds = groups[name].measure("all_reduce", size, options.budget)
                    cells.setdefault(size, {}).setdefault(name, []).append(seconds)
        return ranks, cells, [line for pair in pairs for line in pair.lines()]
    finally:
        for group in [*groups.values(), *pairs]:
            group.close()
        loops.__exit__()


def table(count, network, ranks, cells, beside):
    names = list(next(iter(cells.values())))
    first = names[0]
    lines = [f"{count} hosts, {ranks} ranks{network}; all-reduce, f32, sum; us a call "
             "(median of rounds)",
             f"{'bytes':>10}" + "".join(f"{name:>12}" for name in names)
             + "".join(f"{name + '/' + first:>18}" for name in names[1:])
             + f"{'GB/s on wire':>14}"]
    for size, cell in cells.items():
        median = {name: statistics.median(values) for name, values in cell.items()}
        line = f"{size:>10}" + "".join(f"{median[name] * 1e6:>12.1f}" for name in names)
        for name in names[1:]:  # ratios per turn: common slowdowns cancel out
            ratio = statistics.median(a / b for a, b in zip(cell[name], cell[first]))
            line += f"{ratio:>18.2f}"
        lines.append(line + f"{2 * size * (count - 1) / count / median[first] / 1e9:>14.2f}")
    return "\n".join(lines + beside) + "\n"


def main():
    options = parse()
    os.makedirs(options.out, exist_ok=True)
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True,
                            text=True, check=False).stdout.strip()
    text = f"commit {commit}, {time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores\n"
    for count, gbit in itertools.product(options.hosts, options.gbit):
        about = f", {gbit:g} Gb/s" if gbit else ""
        about += ", beside one busy loop a core" if options.busy else ""
        with Hosts(count, gbit) as hosts:
            try:
                text += "\n" + table(count, about, *measure(options, hosts, count))
            except ContestantFailed as failure:
                print(f"net_compare: {failure}", file=sys.stderr)
                return 1
    with open(f"{options.out}/net.txt", "w", encoding="utf-8") as file:
        file.write(text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
