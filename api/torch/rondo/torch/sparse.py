# SPDX-License-Identifier: Apache-2.0
"""all_reduce of sparse COO tensors: gathers and sums the entries of all ranks, as gloo does.

Runs on the caller's thread, because ranks must exchange their numbers of entries first.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllgatherOptions

from rondo.torch.elements import Op, kind_of
from rondo.torch.work import FinishedWork


def gathered(group, tensor: torch.Tensor, rows: list[int]) -> torch.Tensor:
    """The tensors of all ranks, concatenated along the first dimension."""
    options = AllgatherOptions()
    options.asyncOp = False
    parts = [tensor.new_empty((count, *tensor.shape[1:])) for count in rows]
    group.allgather([parts], [tensor], options)
    return torch.cat(parts)


def all_reduce_sparse(group, tensors: list[torch.Tensor], opts) -> dist.Work:
    (tensor,) = tensors
    if kind_of(opts.reduceOp) not in (Op.SUM, Op.AVG):
        raise TypeError("rondo: sparse tensors can only be summed and averaged (SUM, AVG)")
    mine = tensor.coalesce()
    indices, values = mine.indices().t().contiguous(), mine.values()
    sizes = gathered(group, torch.tensor([len(indices)]), [1] * group.size()).tolist()
    total = torch.sparse_coo_tensor(
        gathered(group, indices, sizes).t(), gathered(group, values, sizes), tensor.shape
    ).coalesce()
    if kind_of(opts.reduceOp) == Op.AVG:
        total = total / group.size()
    tensor.copy_(total)
    return FinishedWork(tensors)
