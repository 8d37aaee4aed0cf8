# SPDX-License-Identifier: Apache-2.0
"""Hosts of a comparison: network namespaces joined by a bridge, and commands that start ranks.

They need root and the command ip. The wire is kernel memory: the figures measure the socket path of
this machine, for ratios between contestants, never a network's speed. `gbit` limits what each host
sends and receives to a network's rate (tbf); a delay needs netem, which few kernels have.
"""
import os
import subprocess

NET = "10.213.9"
DEVICE = "eth9"


BURST, QUEUE = "256k", "16m"  # queues that drop nothing


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def shape(namespace, device, gbit):
    subprocess.run(["tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate",
                    f"{gbit}gbit", "burst", BURST, "limit", QUEUE], check=True,
                   capture_output=True, text=True)


class Hosts:
    """`count` namespaces; as a context manager it removes them at the end."""

    def __init__(self, count, gbit=None):
        self.gbit = gbit
        self.names = [f"rondo-net-{os.getpid()}-{h}" for h in range(count)]
        self.bridge = f"rondo-net-{os.getpid()}-br"

    def __enter__(self):
        try:
            ip("netns", "add", self.bridge)
            ip("-n", self.bridge, "link", "add", "br0", "type", "bridge")
            ip("-n", self.bridge, "link", "set", "br0", "up")
            for host, name in enumerate(self.names):
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
                ip("link", "add", DEVICE, "netns", name, "type", "veth",
                   "peer", "name", f"v{host}", "netns", self.bridge)
                ip("-n", self.bridge, "link", "set", f"v{host}", "master", "br0")
                ip("-n", self.bridge, "link", "set", f"v{host}", "up")
                ip("-n", name, "address", "add", f"{self.address(host)}/24", "dev", DEVICE)
                ip("-n", name, "link", "set", DEVICE, "up")
                if self.gbit:
                    shape(name, DEVICE, self.gbit)
                    shape(self.bridge, f"v{host}", self.gbit)
        except (OSError, subprocess.CalledProcessError) as failure:
            self.__exit__()
            why = getattr(failure, "stderr", "") or str(failure)
            raise SystemExit(f"net_compare: no network namespaces here: {why.strip()}") from failure
        return self

    def __exit__(self, *_):
        for name in [*self.names, self.bridge]:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def address(self, host):
        return f"{NET}.{host + 1}"

    def on(self, host, *command):
        return ["ip", "netns", "exec", self.names[host], *command]


def host_of(rank, ranks, hosts):
    return rank * hosts // ranks


def start_each(hosts, ranks, folder, command, port):
    """A shell line that starts each rank of `command` on its host, and ends with all."""
    lines = ["trap 'kill 0' EXIT"]
    for rank in range(ranks):
        host = host_of(rank, ranks, len(hosts.names))
        local = rank - min(r for r in range(ranks)
                           if host_of(r, ranks, len(hosts.names)) == host)
        lines.append(" ".join(
            [f"RANK={rank} WORLD_SIZE={ranks} LOCAL_RANK={local}",
             f"MASTER_ADDR={hosts.address(0)} MASTER_PORT={port} GLOO_SOCKET_IFNAME={DEVICE}",
             *hosts.on(host, *command), folder, "&"]))
    return ["bash", "-c", "\n".join([*lines, "wait", "trap - EXIT"])]


def open_mpi(hosts, ranks, folder, program, launcher="mpirun.openmpi"):
    """mpirun with an agent instead of ssh to reach its hosts."""
    agent = f"{folder}/agent"
    with open(agent, "w", encoding="utf-8") as file:
        names = " ".join(f"{hosts.address(h)}) exec ip netns exec {name} sh -c \"$*\" ;;"
                         for h, name in enumerate(hosts.names))
        file.write(f"#!/bin/sh\nhost=$1; shift\ncase $host in {names} esac\n")
    os.chmod(agent, 0o755)
    per_host = [sum(host_of(r, ranks, len(hosts.names)) == h for r in range(ranks))
                for h in range(len(hosts.names))]
    where = ",".join(f"{hosts.address(h)}:{count}" for h, count in enumerate(per_host))
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    new = launcher != "mpirun.openmpi"  # version 5: PRRTE launches, and vader is called sm
    launch = [("--prtemca", "prte_if_include"), ("--prtemca", "plm_ssh_agent")] if new else \
        [("--mca", "oob_tcp_if_include"), ("--mca", "plm_rsh_agent")]
    values = [f"{NET}.0/24", agent]
    words = [word for option, value in zip(launch, values) for word in (*option, value)]
    return hosts.on(0, launcher, *root, "--bind-to", "none", "--map-by", "slot",
                    "--host", where, "-np", str(ranks), *words,
                    "--mca", "pml", "ob1", "--mca", "btl", "tcp,self," + ("sm" if new else "vader"),
                    "--mca", "btl_tcp_if_include", f"{NET}.0/24", program, folder)
