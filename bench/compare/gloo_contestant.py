# SPDX-License-Identifier: Apache-2.0
"""Gloo's side of bench/net_compare.sh, through torch.distributed; the protocol is loop.h's."""
import os
import sys
import time

import torch
import torch.distributed as dist


def measure(rank, size, line):
    name, count, blocks, calls, warm = line.split()
    if name != "all_reduce":
        return f"error gloo_contestant.py knows all_reduce, not {name}"
    sent = torch.full((max(int(count) // 4, 1),), float(rank + 1))
    received = torch.empty_like(sent)
    options = dist.AllreduceOptions()
    group = dist.group.WORLD._get_backend(torch.device("cpu"))

    def call():  # out of place, like the others
        received.copy_(sent)
        group.allreduce([received], options).wait()

    for _ in range(int(warm)):
        call()
    seconds = []
    for _ in range(int(blocks)):
        begin = time.perf_counter()
        for _ in range(int(calls)):
            call()
        seconds.append((time.perf_counter() - begin) / int(calls))
    if not torch.all(received == size * (size + 1) / 2):
        return f"error wrong result of {line}"
    return " ".join(["ok", *(f"{each:.5g}" for each in seconds)])


def main():
    folder, rank = sys.argv[1], int(os.environ["RANK"])
    torch.set_num_threads(1)
    with open(f"{folder}/in.{rank}", encoding="utf-8") as lines, \
            open(f"{folder}/out.{rank}", "w", encoding="utf-8", buffering=1) as answers:
        dist.init_process_group("gloo")
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpus[rank % len(cpus)]})
        print("ready", file=answers)
        for line in iter(lines.readline, "quit\n"):
            print(measure(rank, dist.get_world_size(), line.strip()), file=answers)


main()
