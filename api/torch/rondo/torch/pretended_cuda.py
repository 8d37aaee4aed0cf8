# SPDX-License-Identifier: Apache-2.0
"""torch.cuda and torch.accelerator where every GPU is the CPU.

ANSWERS replace what a CPU build of torch lacks; py lists the rest, with reasons.
A name is replaced in every module that has it, so that torch's own code uses the same.
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from rondo.torch import pretended_runtime

NAME = "CPU by rondo.torch.run"
CAPABILITY, ARCHITECTURE, NCCL_VERSION = (9, 0), "sm_90", (2, 28, 9)
ELEMENTS = (
    "BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short",
    "ComplexDouble", "ComplexFloat",
)  # fmt: skip
SUBMODULES = (
    "comm", "gds", "graphs", "green_contexts", "jiterator", "memory", "nccl", "nvtx", "profiler",
    "random", "sparse", "streams", "tunable",
)  # fmt: skip


def properties(_: Any = None) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        name=NAME, major=CAPABILITY[0], minor=CAPABILITY[1], multi_processor_count=os.cpu_count(),
        total_memory=pretended_runtime.total_memory(), warp_size=32, is_integrated=0,
        is_multi_gpu_board=0,
        max_threads_per_multi_processor=2048, max_threads_per_block=1024, gcnArchName="",
        regs_per_multiprocessor=65536, shared_memory_per_block=49152, L2_cache_size=1 << 20,
        shared_memory_per_block_optin=232448, shared_memory_per_multiprocessor=233472,
        pci_bus_id=0, pci_device_id=0, pci_domain_id=0, uuid="00000000-0000-0000-0000-000000000000",
    )  # fmt: skip


def nothing(*_: Any, **__: Any) -> None:
    pass


class Runtime:
    """torch.cuda.cudart(): harmless calls succeed, others are refused."""

    class cudaError:
        success = 0

    cudaProfilerStart = cudaProfilerStop = staticmethod(lambda *_: 0)
    cudaHostRegister = cudaHostUnregister = staticmethod(lambda *_: 0)
    cudaMemGetInfo = staticmethod(pretended_runtime.free_and_total)

    @staticmethod
    def cudaGetErrorString(code: int) -> str:
        return f"error {code}"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"rondo: {name} of the CUDA runtime is not available under rondo.torch.run --device cpu"
        )


class CudaError(RuntimeError):
    def __init__(self, code: int) -> None:
        super().__init__(f"error {code} (CUDA by rondo.torch.run)")


RUNTIME = Runtime()


def seed_all(seed: int) -> None:
    torch.default_generator.manual_seed(int(seed))


@contextlib.contextmanager
def unchanged(*_: Any, **__: Any) -> Any:
    yield


def types_of_elements() -> dict[str, Any]:
    """torch.cuda.FloatTensor is torch.FloatTensor."""
    names = [f"{element}{kind}" for element in ELEMENTS for kind in ("Tensor", "Storage")]
    return {name: getattr(torch, name) for name in names if hasattr(torch, name)}


ANSWERS = {
    "Stream": pretended_runtime.Stream,
    "ExternalStream": pretended_runtime.ExternalStream,
    "Event": pretended_runtime.Event,
    "stream": pretended_runtime.StreamContext,
    "StreamContext": pretended_runtime.StreamContext,
    "current_stream": pretended_runtime.current_stream,
    "set_stream": pretended_runtime.set_stream,
    "default_stream": lambda *_: pretended_runtime.DEFAULT,
    "get_stream_from_external": pretended_runtime.ExternalStream,
    "is_current_stream_capturing": lambda: False,
    "get_device_properties": properties,
    "get_device_name": lambda *_: NAME,
    "get_device_capability": lambda *_: CAPABILITY,
    "get_arch_list": lambda: [ARCHITECTURE],
    "get_gencode_flags": lambda: f"-gencode compute=compute_90,code={ARCHITECTURE}",
    "get_num_locality_domains": lambda *_: 1,
    "is_localization_supported": lambda *_: False,
    "is_bf16_supported": lambda *_, **__: True,
    "is_tf32_supported": lambda *_, **__: True,
    "can_device_access_peer": lambda *_: True,
    "is_initialized": lambda: True,
    "_lazy_init": nothing,
    "_lazy_call": lambda call, **_: call(),
    "cudart": lambda: RUNTIME,
    "_cudart": RUNTIME,
    "CudaError": CudaError,
    "get_sync_debug_mode": lambda: 0,
    "caching_allocator_disabled": unchanged,
    "manual_seed": seed_all,
    "manual_seed_all": seed_all,
    "seed": lambda: torch.default_generator.seed() and None,
    "seed_all": lambda: torch.default_generator.seed() and None,
    "initial_seed": torch.initial_seed,
    "get_rng_state": lambda *_: torch.get_rng_state(),
    "set_rng_state": lambda state, *_: torch.set_rng_state(state),
    "get_rng_state_all": lambda: [torch.get_rng_state()],
    "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
    **pretended_runtime.MEMORY_ANSWERS,
    **types_of_elements(),
    **dict.fromkeys(
        (
            "synchronize", "empty_cache", "init", "ipc_collect", "caching_allocator_enable",
            "reset_accumulated_host_memory_stats", "reset_accumulated_memory_stats",
            "reset_max_memory_allocated", "reset_max_memory_cached",
            "reset_peak_host_memory_stats", "reset_peak_memory_stats",
            "set_per_process_memory_fraction", "set_sync_debug_mode",
        ),
        nothing,
    ),
}  # fmt: skip
OF_ACCELERATOR = {
    "current_stream": pretended_runtime.current_stream,
    "set_stream": pretended_runtime.set_stream,
    "get_device_capability": lambda *_: {"supported_dtypes": set(KINDS)},
    **pretended_runtime.MEMORY_OF_ACCELERATOR,
    **dict.fromkeys(
        (
            "synchronize", "empty_cache", "empty_host_cache", "reset_accumulated_memory_stats",
            "reset_peak_memory_stats",
        ),
        nothing,
    ),
}  # fmt: skip
OF_NVTX = {
    **dict.fromkeys(("range_push", "range_pop", "range_start"), lambda *_: 0),
    **dict.fromkeys(("range_end", "mark"), nothing),
    "range": unchanged,
}
OF_NCCL = {"is_available": lambda tensors=(): True, "version": lambda: NCCL_VERSION}
KINDS = tuple(v for v in vars(torch).values() if isinstance(v, torch.dtype))

GRAPHS = (
    "the CPU records no graph of launches; run the step without one (torch.compile works: leave "
    'out mode="reduce-overhead" and backend="cudagraphs")'
)
NVML = "there is no GPU with sensors to read"
HANDLES = "there is no GPU library that could have a handle"
ALLOCATOR = "tensors are in CPU memory, which torch.cuda's allocator does not manage"
COMPILER = "the CPU does not run CUDA C++"
TUNING = "there is no GPU library with kernels to tune"
SEVERAL = "it is for several GPUs of one process; use torch.distributed"
STORAGE = "GPU memory cannot be written to a file directly: use torch.save and torch.load"

# By module. Names refused in torch.cuda are also refused in its submodules.
REFUSED: dict[str, dict[str, str]] = {
    "torch.cuda": {
        **dict.fromkeys(
            (
                "CUDAGraph", "graph", "make_graphed_callables", "graph_pool_handle", "export_dot",
                "export_graph_data", "register_graph_capture_start_hook",
                "register_graph_capture_end_hook", "register_graph_instantiate_hook",
                "register_graph_replay_start_hook", "register_graph_replay_end_hook",
                "register_graph_destroy_hook",
            ),
            GRAPHS,
        ),
        **dict.fromkeys(("utilization", "temperature", "power_draw", "clock_rate"), NVML),
        "memory_usage": NVML,
        **dict.fromkeys(("current_blas_handle", "current_solver_handle", "GreenContext"), HANDLES),
        "SMPartition": "the CPU has no multiprocessors to divide",
        **dict.fromkeys(("caching_allocator_alloc", "caching_allocator_delete"), ALLOCATOR),
        **dict.fromkeys(("CUDAPluggableAllocator", "change_current_allocator"), ALLOCATOR),
        **dict.fromkeys(("MemPool", "use_mem_pool"), ALLOCATOR),
    },
    "torch.cuda.jiterator": dict.fromkeys(
        ("_create_jit_fn", "_create_multi_output_jit_fn"), COMPILER
    ),
    "torch.cuda.tunable": dict.fromkeys(
        (
            "enable", "is_enabled", "tuning_enable", "tuning_is_enabled", "record_untuned_enable",
            "record_untuned_is_enabled", "set_max_tuning_duration", "get_max_tuning_duration",
            "set_max_tuning_iterations", "get_max_tuning_iterations", "set_filename",
            "get_filename", "get_results", "get_validators", "read_file", "write_file",
            "write_file_on_exit", "tune_gemm_in_file", "mgpu_tune_gemm_in_file",
            "set_rotating_buffer_size", "get_rotating_buffer_size",
            "set_numerical_check_tolerances", "set_cublaslt_requested_algo_count",
        ),
        TUNING,
    ),
    "torch.cuda.nccl": dict.fromkeys(
        (
            "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "init_rank",
            "unique_id",
        ),
        SEVERAL,
    ),
    "torch.cuda.comm": dict.fromkeys(
        (
            "broadcast", "broadcast_coalesced", "reduce_add", "reduce_add_coalesced", "scatter",
            "gather",
        ),
        SEVERAL,
    ),
    "torch.cuda.gds": dict.fromkeys(
        ("gds_register_buffer", "gds_deregister_buffer", "GdsFile"), STORAGE
    ),
    "torch.accelerator": {"Graph": GRAPHS},
}  # fmt: skip


def refusal(where: str, name: str, reason: str, theirs: Any) -> Any:
    """A replacement for a class or a function that raises the error."""
    text = f"rondo: {where}.{name} is not available under rondo.torch.run --device cpu: {reason}"

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError(text)

    if isinstance(theirs, type):
        return type(name, (), {"__init__": refuse, "__module__": where, "__doc__": text})
    refuse.__name__ = name
    if hasattr(theirs, "__wrapped__"):  # torch.compile reads it from context managers
        refuse.__wrapped__ = theirs.__wrapped__
    return refuse


def modules(root: types.ModuleType) -> list[types.ModuleType]:
    """All submodules, whether or not torch has imported them yet."""
    for name in SUBMODULES if root is torch.cuda else ():
        with contextlib.suppress(ImportError):  # may be missing in newer torch
            __import__(f"torch.cuda.{name}")
    inside = f"{root.__name__}."
    return [root, *(m for name, m in list(sys.modules.items()) if name.startswith(inside) and m)]


def find(root: types.ModuleType, name: str) -> Any:
    return next((vars(m)[name] for m in modules(root) if name in vars(m)), None)


def own(name: str, answer: Any) -> Any:
    """torch.compile distinguishes functions by identity, so each name gets its own copy."""
    if not isinstance(answer, types.FunctionType):
        return answer
    copy = types.FunctionType(
        answer.__code__, answer.__globals__, name, answer.__defaults__, answer.__closure__
    )
    copy.__kwdefaults__ = answer.__kwdefaults__
    copy.__dict__.update(answer.__dict__)
    return copy


def replace(root: types.ModuleType, answers: dict[str, Any]) -> None:
    answers = {name: own(name, answer) for name, answer in answers.items()}
    for module in modules(root):
        for name in answers.keys() & vars(module).keys():
            setattr(module, name, answers[name])


def refuse() -> None:
    for where, reasons in REFUSED.items():
        root = sys.modules.get(where)
        if root is None:
            continue
        names = {
            name: refusal(where, name, reason, theirs)
            for name, reason in reasons.items()
            if (theirs := find(root, name)) is not None
        }
        replace(root, names)


def devices_of(current: Callable, set_current: Callable) -> dict[str, type]:
    class device:
        """None or a negative number changes nothing."""

        def __init__(self, which: Any) -> None:
            self.idx = which if isinstance(which, int) or which is None else index_of(which)

        def __enter__(self) -> None:
            self.prev_idx = current()
            if self.idx is not None and self.idx >= 0:
                set_current(self.idx)

        def __exit__(self, *_: Any) -> None:
            set_current(self.prev_idx)

    class device_of(device):
        def __init__(self, tensor: Any) -> None:
            super().__init__(-1)

    def index_of(which: Any) -> int | None:
        return torch.device(which).index

    return {"device": device, "device_of": device_of}


def install(count: int, current: Callable, set_current: Callable) -> None:
    """current() and set_current(index): the GPU that the program believes to use."""
    replace(torch.cuda, ANSWERS | devices_of(current, set_current))
    replace(torch.cuda.nvtx, OF_NVTX)
    replace(torch.cuda.nccl, OF_NCCL)
    refuse()
    torch.cuda.default_generators = (torch.default_generator,) * count
    replace(torch.accelerator, OF_ACCELERATOR)
    of_dynamo = getattr(torch._C._dynamo, "utils", None)  # C++ that queries the real accelerator
    if hasattr(of_dynamo, "get_current_stream"):  # torch 2.15 or newer
        of_dynamo.get_current_stream = pretended_runtime.current_stream
    torch.accelerator.device_index = torch.cuda.device
    torch.accelerator.set_device_idx = set_current
    torch.accelerator.current_device_idx = current
    torch.Stream, torch.Event = pretended_runtime.Stream, pretended_runtime.Event
    torch.Tensor.record_stream = nothing
