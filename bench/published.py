#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bus bandwidths of all-reduce that others have published, compared with rondo simulate.

  python3 bench/published.py [--program build/release/bin/rondo]

Prints the table of docs/plan/simulate.md. Predictions are for Rondo on that machine, published
figures mostly for NCCL, so a ratio far from 1 questions the model, or Rondo. This measures nothing.
"""
import argparse
import csv
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass

MACHINES = os.path.join(os.path.dirname(__file__), "..", "tests", "topology")


@dataclass
class Row:
    machine: str
    published: float  # GB/s; the middle of a range
    source: str
    topo: str
    size: str = "4G"
    algorithm: str = "planned"
    hosts: int = 1
    gpus: int = 0  # per host; 0: all
    links: int = 0  # NVLinks from a GPU to its switch; 0: those of the file
    ports: int = 0  # per host, the first of each pair of GPUs; 0: all
    fabric: bool = False  # NVLink joins the hosts


TESTS, NCCL = "nccl-tests #", "nccl #"
ROWS = [
    Row("8 A100, DGX", 232, "nccl-tests threads", "dgx-a100", algorithm="ring"),
    Row("8 A100, Azure NDv4, by MSCCL++", 244, "mscclpp perf_ndmv4", "dgx-a100", "1G"),
    Row("2 x 8 A100, 8 HDR ports", 190, TESTS + "119", "dgx-a100", hosts=2),
    Row("2 x 8 A100, 4 HDR ports", 96, TESTS + "119", "dgx-a100", hosts=2, ports=4),
    Row("8 H100, rings", 370, TESTS + "212", "dgx-h100", algorithm="ring"),
    Row("8 H100, NVLS", 480, TESTS + "212", "dgx-h100", algorithm="nvls"),
    Row("8 H200, NVLS", 475, TESTS + "272", "dgx-h100", algorithm="nvls"),
    Row("8 H800 (8 NVLinks each), NVLS", 215, NCCL + "1374", "dgx-h100", algorithm="nvls",
        links=8),
    Row("8 B200", 830, NCCL + "1807", "dgx-b200", algorithm="ring"),
    Row("8 B200, if that was NVLS", 830, NCCL + "1807", "dgx-b200", algorithm="nvls"),
    Row("2 x 4 GB200, NVLink between hosts", 811, "lixueduan.com", "gb200-nvl72", hosts=2,
        fabric=True),
    Row("18 x 4 GB200 NVL72, 8 GiB", 841, "coreweave/nccl-tests #43", "gb200-nvl72", "8G",
        hosts=18, fabric=True),
    Row("18 x 4 GB200 NVL72, 512 MiB", 586, "coreweave/nccl-tests #43", "gb200-nvl72", "512M",
        hosts=18, fabric=True),
    Row("18 x 4 GB200 NVL72, 8 GiB, by the network", 841, "coreweave/nccl-tests #43",
        "gb200-nvl72", "8G", hosts=18),
]


def keep_ports(text, wanted):
    """Keeps `wanted` ports, evenly spread, and removes the others."""
    ports = re.findall(r" *<net [^>]*/>\n", text)
    step = len(ports) // wanted
    for place, port in enumerate(ports):
        if place % step != 0:
            text = text.replace(port, "", 1)
    return text


def topology_of(row, folder):
    """A machine name that rondo knows, or a file if the machine differs from those."""
    if not row.links and not row.ports:
        return row.topo
    with open(os.path.join(MACHINES, row.topo + ".xml"), encoding="utf-8") as file:
        text = file.read()
    if row.links:
        text = re.sub(r'(<nvlink target="ffff:ff:ff.0" count=")\d+', rf"\g<1>{row.links}", text)
    if row.ports:
        text = keep_ports(text, row.ports)
    path = os.path.join(folder, f"{row.topo}-{row.links}-{row.ports}.xml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def predict(program, row, folder):
    """(bus bandwidth, "ring, 16 channels"), or the error."""
    rows = os.path.join(folder, "rows.csv")
    command = [program, "simulate", "all_reduce", "--topo", topology_of(row, folder), "-b",
               row.size, "-e", row.size, "--algo", row.algorithm, "--csv", rows]
    command += ["--hosts", str(row.hosts)] + (["--gpus", str(row.gpus)] if row.gpus else [])
    variables = {**os.environ, "NCCL_MNNVL_ENABLE": "1" if row.fabric else "0"}
    ran = subprocess.run(command, capture_output=True, text=True, env=variables)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(command)}: {ran.stderr.strip()}")
    with open(rows, encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    best = min(found, key=lambda one: float(one["time_us"]))
    way = f"{best['algorithm']} by {best['protocol']}, {best['channels']} channels"
    return float(best["busbw_gbs"]), way


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/bin/rondo")
    program = parser.parse_args().program
    if not os.path.exists(program):
        sys.exit(f"{program} is not there: build it, or name another one by --program")
    print("| machine | published | predicted | ratio | by | source |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for row in ROWS:
            predicted, way = predict(program, row, folder)
            print(f"| {row.machine} | {row.published:.0f} | {predicted:.0f} "
                  f"| {predicted / row.published:.2f} | {way} | {row.source} |")


if __name__ == "__main__":
    main()
