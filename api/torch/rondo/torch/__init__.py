# SPDX-License-Identifier: Apache-2.0
"""PyTorch on Rondo: `import rondo.torch` registers backend "rondo" for CPU tensors.

    import rondo.torch
    torch.distributed.init_process_group("rondo")

Installed with pip, it registers itself when torch is imported.
"""

from rondo.autoload import register
from rondo.known_torch import explained

with explained():
    register()

    from rondo.torch.groups import monitored_barrier, shrink_group, split_group
    from rondo.torch.ordered import (
        MicroBatches,
        Options,
        all_reduce_ordered,
        ordered_sums,
        reduce_scatter_ordered,
    )

__all__ = [
    "MicroBatches",
    "Options",
    "all_reduce_ordered",
    "monitored_barrier",
    "ordered_sums",
    "reduce_scatter_ordered",
    "shrink_group",
    "split_group",
]
