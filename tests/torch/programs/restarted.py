# SPDX-License-Identifier: Apache-2.0
"""Six steps with a checkpoint after each; in the first run rank 1 is killed in step 3."""

import os
import signal
import sys

import rondo.torch  # noqa: F401
import torch
import torch.distributed as dist

dist.init_process_group("rondo")
rank, path = dist.get_rank(), sys.argv[1]
step = torch.load(path)["step"] if os.path.exists(path) else 0
print(f"rank {rank} begins at step {step}", flush=True)
dist.barrier()
while step < 6:
    if step == 3 and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(100))
    step += 1
    if rank == 0:
        torch.save({"step": step}, path)
    dist.barrier()
print(f"rank {rank} ends at step {step}", flush=True)
