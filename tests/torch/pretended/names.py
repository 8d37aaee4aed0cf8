# SPDX-License-Identifier: Apache-2.0
"""Every public name of torch.cuda and torch.accelerator, of streams and events, works, or is in the
table of refusals with its reason. With a newer torch this test shows what is missing."""

import contextlib
import importlib
import types

import pytest
import torch
import torch.cuda.comm
import torch.cuda.gds
import torch.cuda.green_contexts
from rondo.torch.pretended_cuda import REFUSED

MODULES = [
    "torch.cuda", "torch.cuda.amp", "torch.cuda.comm", "torch.cuda.gds", "torch.cuda.graphs",
    "torch.cuda.green_contexts", "torch.cuda.jiterator", "torch.cuda.memory", "torch.cuda.nccl",
    "torch.cuda.nvtx", "torch.cuda.profiler", "torch.cuda.random", "torch.cuda.sparse",
    "torch.cuda.streams", "torch.cuda.tunable", "torch.accelerator",
]  # fmt: skip


def some_function(*_):
    return None


def some_stream():
    return torch.cuda.Stream()


# Arguments of names that need some.
ARGUMENTS = {
    "can_device_access_peer": lambda: (0, 1),
    "check_error": lambda: (0,),
    "device": lambda: ("cuda:1",),
    "device_index": lambda: (1,),
    "device_of": lambda: (torch.ones(1, device="cuda"),),
    "set_device": lambda: (1,),
    "set_device_index": lambda: ("cuda:1",),
    "set_device_idx": lambda: (0,),
    "manual_seed": lambda: (1,),
    "manual_seed_all": lambda: (1,),
    "set_rng_state": lambda: (torch.cuda.get_rng_state(), "cuda:1"),
    "set_rng_state_all": lambda: (torch.cuda.get_rng_state_all(),),
    "set_stream": lambda: (torch.cuda.default_stream(),),
    "stream": lambda: (some_stream(),),
    "StreamContext": lambda: (some_stream(),),
    "ExternalStream": lambda: (1,),
    "get_stream_from_external": lambda: (1,),
    "set_sync_debug_mode": lambda: ("warn",),
    "set_per_process_memory_fraction": lambda: (0.5,),
    "caching_allocator_enable": lambda: (False,),
    "CudaError": lambda: (2,),
    "custom_fwd": lambda: (some_function,),
    "custom_bwd": lambda: (some_function,),
    "range_push": lambda: ("a range",),
    "range_start": lambda: ("a range",),
    "range_end": lambda: (0,),
    "range": lambda: ("a range",),
    "mark": lambda: ("here",),
    "is_available": lambda: (),
}


def public(where):
    module = importlib.import_module(where)
    names = set(getattr(module, "__all__", ()))
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) == where and not name.startswith("_"):
            names.add(name)
    return sorted(n for n in names if not isinstance(getattr(module, n), types.ModuleType))


def reason_of(where, name):
    """Names that several modules have are refused in all of them."""
    return REFUSED.get(where, {}).get(name) or (
        REFUSED["torch.cuda"].get(name) if where != "torch.accelerator" else None
    )


def test_there_are_names():
    assert len(public("torch.cuda")) > 100 and len(public("torch.accelerator")) > 15


@pytest.mark.parametrize("where, name", [(w, n) for w in MODULES for n in public(w)])
def test_a_public_name_works_or_is_refused_with_its_reason(where, name):
    thing = getattr(importlib.import_module(where), name)
    if reason := reason_of(where, name):
        with pytest.raises(RuntimeError) as caught:
            thing()
        assert name in str(caught.value) and reason in str(caught.value)
    elif callable(thing) and not (isinstance(thing, type) and issubclass(thing, Warning)):
        default = (2,) if name.endswith(("Tensor", "Storage")) else ()
        result = thing(*ARGUMENTS.get(name, lambda: default)())
        if hasattr(result, "__enter__"):
            with contextlib.closing(contextlib.ExitStack()) as stack:
                stack.enter_context(result)


# In CUDA builds; CPU builds have some of them.
STREAM = {
    "cuda_stream", "device", "device_index", "device_type", "is_capturing", "native_handle",
    "priority", "priority_range", "query", "record_event", "stream_id", "synchronize",
    "wait_event", "wait_stream",
}  # fmt: skip
EVENT = {
    "cuda_event", "device", "elapsed_time", "event_id", "from_ipc_handle", "ipc_handle", "query",
    "record", "synchronize", "wait",
}  # fmt: skip
NO_IPC = {"from_ipc_handle", "ipc_handle"}


def works(name, value, arguments):
    if callable(value) and name in NO_IPC:
        with pytest.raises(RuntimeError, match="no handles for other processes"):
            value(*arguments.get(name, ()))
    elif callable(value):
        value(*arguments.get(name, ()))


@pytest.mark.parametrize("kind", [torch.Stream, torch.cuda.Stream, torch.cuda.ExternalStream])
def test_everything_of_a_stream_works(kind):
    stream, event = kind(), torch.cuda.Event()
    assert isinstance(stream, torch.Stream) and isinstance(stream, torch.cuda.Stream)
    arguments = {"wait_event": (event,), "wait_stream": (kind(),), "record_event": (event,)}
    for name in STREAM | {n for n in dir(kind) if not n.startswith("_")}:
        works(name, getattr(stream, name), arguments)
    assert stream != kind() and stream == stream and len({stream, stream, kind()}) == 2


@pytest.mark.parametrize("kind", [torch.Event, torch.cuda.Event])
def test_everything_of_an_event_works(kind):
    event, end = kind(enable_timing=True), kind(enable_timing=True)
    assert isinstance(event, torch.Event) and isinstance(event, torch.cuda.Event)
    with pytest.raises(RuntimeError, match="must be recorded"):
        event.elapsed_time(end)
    for one in (event, end):
        one.record()
    assert event.elapsed_time(end) >= 0
    arguments = {"elapsed_time": (end,), "from_ipc_handle": (0, b"")}
    for name in EVENT | {n for n in dir(kind) if not n.startswith("_")}:
        works(name, getattr(event, name), arguments)


def test_streams_nest():
    first, second = torch.cuda.Stream(priority=-1), torch.Stream(device="cuda")
    outside = torch.cuda.current_stream()
    assert outside == torch.cuda.default_stream()
    with torch.cuda.stream(first):
        assert torch.cuda.current_stream() == first
        with second:
            assert torch.accelerator.current_stream() == second
        with torch.cuda.stream(None):
            assert torch.cuda.current_stream() == first
    assert torch.cuda.current_stream() == outside
    assert not outside.is_capturing() and not torch.cuda.is_current_stream_capturing()


def test_memory_has_the_numbers_that_programs_print():
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.peak"] == stats["num_alloc_retries"] == 0
    assert torch.cuda.memory_stats_as_nested_dict()["reserved_bytes"]["all"]["current"] == 0
    assert torch.cuda.mem_get_info()[1] == torch.cuda.get_device_properties(0).total_memory > 0
    assert torch.accelerator.get_memory_info()[0] > 0


def test_devices_nest():
    torch.cuda.set_device(1)
    with torch.cuda.device("cuda:0"):
        assert torch.cuda.current_device() == 0
        with torch.cuda.device(None), torch.accelerator.device_index(-1):
            assert torch.accelerator.current_device_index() == 0
    assert torch.cuda.current_device() == 1
    assert len(torch.cuda.default_generators) == torch.cuda.device_count()


def test_types_of_gpu_tensors():
    tensor = torch.cuda.FloatTensor([1, 2])
    assert isinstance(tensor, torch.cuda.FloatTensor)
    assert not isinstance(tensor, torch.cuda.HalfTensor)
    assert tensor.type("torch.cuda.HalfTensor").dtype == torch.float16
    assert tensor.type(torch.cuda.LongTensor).tolist() == [1, 2]
    for kind in ("torch.cuda.DoubleTensor", torch.cuda.FloatTensor):
        torch.set_default_tensor_type(kind)
        assert torch.ones(1).dtype in (torch.float64, torch.float32)
    assert torch.ones(1).dtype == torch.float32


def test_the_runtime_profiles_and_refuses_the_rest():
    with torch.cuda.profiler.profile():
        pass
    assert torch.cuda.cudart().cudaProfilerStart() == 0
    with pytest.raises(AttributeError, match="cudaGraphLaunch.*--device cpu"):
        torch.cuda.cudart().cudaGraphLaunch()
    with pytest.raises(torch.cuda.CudaError):
        torch.cuda.check_error(2)
