"""PyTorch on Rondo in place of NCCL: one process, one rank, every collective that it calls.

  LD_PRELOAD=build/cuda/lib/libnccl.so.2 python3 tests/gpu/torch_check.py
"""
import os

import torch
import torch.distributed as dist


def loaded_library():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return sorted({line.split()[-1] for line in maps if "libnccl" in line})


def main():
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=0, world_size=1)
    x = torch.arange(1000, device="cuda", dtype=torch.float32)
    want = x.clone()
    dist.all_reduce(x)
    assert torch.equal(x, want), "all_reduce of one rank changed its input"
    out = torch.empty_like(x)
    dist.all_gather_into_tensor(out, x)
    assert torch.equal(out, want), "all_gather_into_tensor"
    dist.reduce_scatter_tensor(out, x)
    assert torch.equal(out, want), "reduce_scatter_tensor"
    dist.broadcast(x, 0)
    dist.barrier()

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(1)
        dist.all_reduce(x)
    for _ in range(10):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(x, want + 10), "replays of a captured all_reduce"
    dist.destroy_process_group()
    print("torch", torch.__version__, "on", loaded_library())


if __name__ == "__main__":
    main()
