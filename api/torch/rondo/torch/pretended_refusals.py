# SPDX-License-Identifier: Apache-2.0
"""Names of torch.cuda that the CPU cannot support, each with the reason for the error message."""

from __future__ import annotations

from typing import Any

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
