# SPDX-License-Identifier: Apache-2.0
"""A replica of a training by torchft, on CPUs.

  torchft_replica.py LIGHTHOUSE NAME BACKEND [dies]

BACKEND: rondo, raises (Rondo's group as it is) or gloo (torchft's own). Prints a line for each step
that its replicas took: `step N of M replicas SUM`, where SUM is the sum of the parameters. Trains
until it is killed; with `dies`, kills itself while another replica waits for it in an all-reduce.
"""

import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torchft import DistributedDataParallel, Manager, Optimizer
from torchft.process_group import ProcessGroupGloo, ProcessGroupWrapper

LIMIT = timedelta(seconds=120)  # for busy machines


def group(backend):
    from rondo.torch.process_group import RondoProcessGroup
    from rondo.torchft import ProcessGroupRondo

    class Raises(ProcessGroupWrapper):
        def _create_pg(self, store, rank, world_size):
            return RondoProcessGroup(store, rank, world_size, self._timeout)

    return {"rondo": ProcessGroupRondo, "raises": Raises, "gloo": ProcessGroupGloo}[backend](LIMIT)


def main():
    lighthouse, name, backend, *dies = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def state():
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

    def load(values):
        model.load_state_dict(values["model"])
        optimizer.load_state_dict(values["optimizer"])

    manager = Manager(
        pg=group(backend), load_state_dict=load, state_dict=state, min_replica_size=1,
        replica_id=name, store_addr="localhost", store_port=store.port, rank=0, world_size=1,
        lighthouse_addr=lighthouse, timeout=LIMIT, quorum_timeout=LIMIT, connect_timeout=LIMIT,
    )  # fmt: skip
    parallel = DistributedDataParallel(manager, model)
    stepping = Optimizer(manager, optimizer)
    generator = torch.Generator().manual_seed(sum(name.encode()))
    together = 0
    while True:
        stepping.zero_grad()
        loss = parallel(torch.randn(16, 32, generator=generator)).square().mean()
        manager.wait_quorum()  # this step has its replicas
        if dies and together == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()
        before = manager.current_step()
        stepping.step()
        if manager.current_step() > before:
            total = sum(p.detach().double().sum().item() for p in model.parameters())
            replicas = manager.num_participants()
            together += replicas == 2
            print(f"step {manager.current_step()} of {replicas} replicas {total!r}", flush=True)


if __name__ == "__main__":
    main()
