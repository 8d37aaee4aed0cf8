"""The driver of bench/net_compare.sh: all-reduce of ranks on several hosts, contestants in turn."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from groups import ContestantFailed, Group
from hosts import Hosts, open_mpi, start_each

SIZES = [4, 1 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20]
QUICK = [4, 1 << 20]


def parse():
    parser = argparse.ArgumentParser(prog="bench/net_compare.sh")
    add = parser.add_argument
    add("--quick", action="store_true", help="few sizes and rounds")
    add("--hosts", default="2,4")
    add("--ranks-per-host", type=int, default=1)
    add("--sizes", help="bytes")
    add("--rounds", type=int, default=9)
    add("--budget", type=float, default=0.1, help="seconds for one measurement")
    add("--python", help="a Python with torch: Gloo stands beside")
    add("--contestants", help="only these")
    add("--build", default="build")
    add("--out", default="build/compare")
    options = parser.parse_args()
    options.hosts = [int(n) for n in options.hosts.split(",")]
    options.sizes = [int(s) for s in options.sizes.split(",")] if options.sizes else SIZES
    if options.quick:
        options.hosts, options.rounds, options.budget = [2], 3, 0.03
        options.sizes = QUICK
    return options


def commands(options):
    """By name: (hosts, ranks, folder) -> command."""
    release, compare = f"{options.build}/release/bin", f"{options.build}/compare"
    rondo = [os.path.abspath(f"{release}/rondo_contestant")]
    gloo = [options.python, os.path.abspath("bench/compare/gloo_contestant.py")]
    all_of_them = {
        "rondo": lambda h, n, f: start_each(h, n, f, rondo, 29931),
        "openmpi": lambda h, n, f: open_mpi(h, n, f, os.path.abspath(
            f"{compare}/contestant.openmpi")),
        "gloo": lambda h, n, f: start_each(h, n, f, gloo, 29941),
    }
    if not options.python:
        del all_of_them["gloo"]
    if options.contestants:
        all_of_them = {name: all_of_them[name] for name in options.contestants.split(",")}
    return all_of_them


class HostsGroup(Group):
    def __init__(self, name, ranks, build, hosts, command):
        self.start = lambda folder: command(hosts, ranks, folder)
        super().__init__(name, ranks, build)

    def command(self):
        return self.start(self.folder)


def stream_gbs(hosts, seconds):
    """GB/s of one TCP stream from host to host, by iperf3."""
    server = subprocess.Popen(hosts.on(1, "iperf3", "-s", "-1"), stdout=subprocess.DEVNULL)
    try:
        for _ in range(50):
            done = subprocess.run(
                hosts.on(0, "iperf3", "-c", hosts.address(1), "-t", str(seconds), "-J"),
                capture_output=True, text=True, check=False)
            received = json.loads(done.stdout or "{}").get("end", {}).get("sum_received")
            if received:  # else the server does not listen yet
                return received["bits_per_second"] / 8e9
            time.sleep(0.1)
        raise ContestantFailed(f"iperf3: {done.stdout[-300:]}")
    finally:
        server.kill()
        server.wait()


def measure(options, hosts, count):
    ranks = count * options.ranks_per_host
    groups, cells, streams = {}, {}, []
    try:
        for name, command in commands(options).items():
            groups[name] = HostsGroup(name, ranks, options.build, hosts, command)
        names = list(groups)
        for turn in range(options.rounds):
            streams.append(stream_gbs(hosts, 1))
            for size in options.sizes:
                for name in names[turn % len(names):] + names[:turn % len(names)]:
                    seconds = groups[name].measure("all_reduce", size, options.budget)
                    cells.setdefault(size, {}).setdefault(name, []).append(seconds)
    finally:
        for group in groups.values():
            group.close()
    return ranks, cells, statistics.median(streams)


def table(count, ranks, cells, stream):
    names = list(next(iter(cells.values())))
    lines = [f"{count} hosts, {ranks} ranks; all-reduce, f32, sum; us a call (median of rounds)",
             f"{'bytes':>10}" + "".join(f"{name:>12}" for name in names)
             + "".join(f"{name + '/rondo':>15}" for name in names if name != "rondo")
             + f"{'GB/s on wire':>14}"]
    for size, cell in cells.items():
        median = {name: statistics.median(values) for name, values in cell.items()}
        line = f"{size:>10}" + "".join(f"{median[name] * 1e6:>12.1f}" for name in names)
        if "rondo" in cell:
            for name in names:
                if name != "rondo":  # turn by turn, so that what slows all slows none
                    ratio = statistics.median(a / b for a, b in zip(cell[name], cell["rondo"]))
                    line += f"{ratio:>15.2f}"
            line += f"{2 * size * (count - 1) / count / median['rondo'] / 1e9:>14.2f}"
        lines.append(line)
    lines.append(f"one TCP stream by iperf3, one way: {stream:.2f} GB/s")
    return "\n".join(lines) + "\n"


def main():
    options = parse()
    os.makedirs(options.out, exist_ok=True)
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True,
                            text=True, check=False).stdout.strip()
    text = f"commit {commit}, {time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores\n"
    for count in options.hosts:
        with Hosts(count) as hosts:
            try:
                text += "\n" + table(count, *measure(options, hosts, count))
            except ContestantFailed as failure:
                print(f"net_compare: {failure}", file=sys.stderr)
                return 1
    with open(f"{options.out}/net.txt", "w", encoding="utf-8") as file:
        file.write(text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
