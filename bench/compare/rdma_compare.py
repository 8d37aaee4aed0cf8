# SPDX-License-Identifier: Apache-2.0
"""The driver of bench/rdma_compare.sh, in the guest: Rondo over verbs compared with perftest.

Two hosts of one rank send one way (slots of a link, a broadcast), and a message back and forth,
over one rail and over two; ib_write_bw and ib_write_lat do so over one. They take turns. Processors
and adapters are emulated, so the figures are ratios, never speeds.
"""
import argparse
import os
import statistics
import subprocess
import tempfile
import time

from groups import ContestantFailed, Group

STREAM, PIECE, SMALL = 16 << 20, 128 << 10, 8
RAILS = {"one_rail": "=rxe{0}", "two_rails": "=rxe{0},rxe{2}"}


class RailsGroup(Group):
    """Rondo's two ranks; rank r has the ends of the wires with r's parity."""

    def __init__(self, name, build, port):
        self.port = port
        super().__init__(name, 2, build)
        self.ask("join")

    def command(self):
        program = os.path.abspath(f"{self.build}/bin/rondo_contestant")
        lines = ["trap 'kill 0' EXIT"]
        for rank in (0, 1):
            ports = RAILS[self.name].format(rank, None, rank + 2)
            lines.append(
                f"RANK={rank} WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 "
                f"MASTER_PORT={self.port} NCCL_HOSTID=host{rank} NCCL_NET=IB NCCL_IB_HCA={ports} "
                f"NCCL_IB_TIMEOUT=18 NCCL_IB_RETRY_CNT=6 NCCL_BUFFSIZE={32 * PIECE} "
                f"{program} {self.folder} &")
        return ["bash", "-c", "\n".join([*lines, "wait", "trap - EXIT"])]


def run_perftest(program, size, messages):
    """Seconds that a client on rxe0 takes, with a server on rxe1. Measured by this clock, since
    perftest counts ticks of an emulated processor."""
    words = ["-F", "-x", "1", "-s", str(size), "-n", str(messages)]
    for patience in range(1, 8):  # a server takes one client, which may have started too early
        server = subprocess.Popen([program, "-d", "rxe1", *words], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        try:
            time.sleep(patience)
            began = time.monotonic()
            client = subprocess.run([program, "-d", "rxe0", *words, "10.77.0.2"], check=False,
                                    capture_output=True, text=True, timeout=60)
            if client.returncode == 0:
                return time.monotonic() - began
            output = (client.stderr or client.stdout)[-400:]
        except subprocess.TimeoutExpired:  # it lost a packet, and retries without limit
            output = "no end within 60 s"
        finally:
            server.kill()
            server.wait()
    raise ContestantFailed(f"{program}: {output}")


def perftest(program, size, messages):
    """Seconds per message: the difference between two counts, so that starts and ends do not
    count."""
    few = run_perftest(program, size, messages // 4)
    return (run_perftest(program, size, messages) - few) / (messages - messages // 4)


def slots_of_link(build):
    """Bytes per second of slots over the link from rxe0 to rxe1, without copies."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen(
            [f"{build}/bin/net_slot_stream", folder, str(rank), "2", "256", "60", "one_way"],
            env=dict(os.environ, NCCL_NET="IB", NCCL_IB_HCA=f"=rxe{rank}"),
            stdout=subprocess.PIPE, text=True) for rank in (0, 1)]
        outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise ContestantFailed("net_slot_stream: " + " ".join(outputs))
    return float(outputs[1].split()[-2])


def turn(groups, budget, build):
    seen = {"ib_write_bw": PIECE / perftest("ib_write_bw", PIECE, 1600),
            "slots": slots_of_link(build),
            "ib_write_lat": perftest("ib_write_lat", SMALL, 12000) / 2}  # half a round trip
    for name, group in groups.items():
        seen[name] = STREAM / group.measure("broadcast", STREAM, budget)
        seen[f"8 B, {name}"] = group.measure("all_reduce", SMALL, budget / 2, prefix="to_and_fro ")
    return seen


def lines(turns):
    def ratio(a, b):
        values = sorted(one[a] / one[b] for one in turns)
        return f"{statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})"
    return [
        f"slots of 128 KiB by ib_write_bw at 128 KiB: {ratio('slots', 'ib_write_bw')}",
        f"a broadcast of {STREAM >> 20} MiB by ib_write_bw at 128 KiB: "
        f"{ratio('one_rail', 'ib_write_bw')}",
        f"a message of 8 B one way by ib_write_lat at 8 B: "
        f"{ratio('8 B, one_rail', 'ib_write_lat')}",
        f"a broadcast of {STREAM >> 20} MiB, two rails by one: {ratio('two_rails', 'one_rail')}",
    ]


def main():
    parser = argparse.ArgumentParser(prog="bench/rdma_compare.sh")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=4, help="seconds for one measurement")
    parser.add_argument("--commit", default="")
    parser.add_argument("--build", default="build/dev")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    groups = {}
    try:
        for port, name in enumerate(RAILS, 29971):
            groups[name] = RailsGroup(name, options.build, port)
        turns = []
        for number in range(options.rounds):
            turns.append(turn(groups, options.budget, options.build))
            print(f"# round {number}: " + "; ".join(f"{k} {v:.4g}" for k, v in turns[-1].items()),
                  flush=True)
    finally:
        for group in groups.values():
            group.close()
    text = "\n".join([f"commit {options.commit}, {time.strftime('%Y-%m-%d')}; a guest without KVM, "
                      f"soft-RoCE; medians of {options.rounds} rounds (min to max)",
                      *lines(turns)]) + "\n"
    with open(options.out, "w", encoding="utf-8") as file:
        file.write(text)
    print(text, end="")


if __name__ == "__main__":
    main()
