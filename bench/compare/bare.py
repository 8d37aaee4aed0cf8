# SPDX-License-Identifier: Apache-2.0
"""What two hosts reach without a library: one TCP stream (iperf3), and UCX's own benchmark."""
import json
import os
import subprocess
import time

from groups import ContestantFailed

UCX = {**os.environ, "UCX_TLS": "tcp"}  # otherwise it detects one host, and uses shared memory


class Server:
    """A program on host 1; a client on host 0 is retried until the program answers."""

    def __init__(self, hosts, *command):
        self.hosts, self.command = hosts, command

    def __enter__(self):
        self.process = subprocess.Popen(self.hosts.on(1, *self.command), env=UCX,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def asked(self, client, parse):
        for _ in range(50):
            done = subprocess.run(self.hosts.on(0, *client), env=UCX, capture_output=True,
                                  text=True, check=False)
            try:
                return parse(done.stdout)
            except (ValueError, KeyError, IndexError):  # the server does not listen yet
                time.sleep(0.1)
        raise ContestantFailed(f"{client[0]}: {(done.stderr or done.stdout)[-300:]}")


def stream_gbs(hosts, seconds):
    """GB/s of one TCP stream from host to host."""
    with Server(hosts, "iperf3", "-s", "-1") as server:
        return server.asked(
            ["iperf3", "-c", hosts.address(1), "-t", str(seconds), "-J"],
            lambda text: json.loads(text)["end"]["sum_received"]["bits_per_second"] / 8e9)


def ucx(hosts, test, size, messages):
    """ucx_perftest's average latency in seconds, and its bandwidth in GB/s."""
    def numbers(text):
        words = text.strip().splitlines()[-1].split(",")
        return float(words[2]) * 1e-6, float(words[4]) * 2**20 / 1e9
    with Server(hosts, "ucx_perftest") as server:
        return server.asked(["ucx_perftest", hosts.address(1), "-t", test, "-s", str(size), "-n",
                             str(messages), "-w", str(messages // 10), "-f", "-v"], numbers)
