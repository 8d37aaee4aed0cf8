# SPDX-License-Identifier: Apache-2.0
"""Under rondo.torch.run --device: a program for many GPUs on the CPU, or on one GPU.

Every GPU that the program names (cuda, cuda:3, 3) becomes the one device. torch.cuda and
torch.accelerator answer as if there were as many GPUs as ranks. On the CPU, autocast, capturable
optimizers and DataParallel work too.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed.device_mesh
from torch.overrides import TorchFunctionMode

from rondo.torch import pretended_cuda

_current = 0


def mapped(value: Any, target: torch.device) -> Any:
    if isinstance(value, torch.device):
        return target if value.type == "cuda" else value
    if not isinstance(value, str):
        return value
    if value == "cuda" or value.startswith("cuda:"):
        return target
    if target.type == "cpu" and value.startswith("torch.cuda."):
        return value.replace(".cuda", "", 1)  # a name of a tensor type
    return value


class OneDevice(TorchFunctionMode):
    """Rewrites the devices passed to functions of torch."""

    def __init__(self, target: torch.device) -> None:
        super().__init__()
        self._target = target

    def __torch_function__(self, function, types, arguments=(), named=None):
        target, named = self._target, named or {}
        if function is torch.Tensor.cuda:
            return function(*arguments[:1], target) if target.type == "cuda" else arguments[0]
        if function is torch.Tensor.to and len(arguments) > 1 and type(arguments[1]) is int:
            arguments = (arguments[0], target, *arguments[2:])
        device = named.get("device")
        if type(device) is int:
            named["device"] = target
        elif device is not None:
            named["device"] = mapped(device, target)
        if target.type == "cpu":
            named.pop("pin_memory", None)
        if function is not torch.device:
            arguments = tuple(mapped(argument, target) for argument in arguments)
        return function(*arguments, **named)


def devices() -> int:
    for name in ("RONDO_TORCH_DEVICES", "LOCAL_WORLD_SIZE", "WORLD_SIZE"):
        if name in os.environ:
            return int(os.environ[name])
    return max(2, os.cpu_count() or 2)


def set_device(device: Any) -> None:
    global _current
    index = torch.device(device).index if not isinstance(device, int) else device
    _current = index or 0


# Functions of torch.cuda whose first argument is a device; default: the current one.
OF_A_DEVICE = (
    "synchronize", "current_stream", "default_stream", "get_device_properties", "get_device_name",
    "get_device_capability", "mem_get_info", "memory_allocated", "max_memory_allocated",
    "memory_reserved", "max_memory_reserved", "memory_stats", "memory_summary",
    "reset_peak_memory_stats", "get_rng_state", "device",
)  # fmt: skip


def on_one_gpu(target: torch.device) -> None:
    """Maps numbers of absent GPUs in functions that no mode intercepts."""

    def always_there(function: Any) -> Any:
        @functools.wraps(function, updated=())
        def on_target(device: Any = None, *rest: Any, **named: Any) -> Any:
            return function(target, *rest, **named)

        return on_target

    for name in OF_A_DEVICE:
        setattr(torch.cuda, name, always_there(getattr(torch.cuda, name)))


def pretend(target_name: str) -> None:
    target = torch.device(target_name)
    OneDevice(target).__enter__()
    in_threads(target)
    for module in (torch.cuda, torch.accelerator):
        module.is_available = lambda: True
        module.device_count = devices
    torch.cuda.set_device = torch.accelerator.set_device_index = set_device
    torch.cuda.current_device = torch.accelerator.current_device_index = lambda: _current
    torch.accelerator.current_accelerator = lambda *_, **__: torch.device("cuda")
    if target.type == "cuda":
        on_one_gpu(target)
    else:
        pretended_cuda.install(devices(), lambda: _current, set_device)
        autocast_too()
        capturable_here()
        one_replica()
        torch.Tensor.pin_memory = lambda tensor, *_: tensor  # also in threads of DataLoader
        torch.nn.Module.cuda = lambda module, *_: module
        torch.nn.Module.to = without_gpus(torch.nn.Module.to, target)
        torch.Generator = generators(torch.Generator)
        mesh = torch.distributed.device_mesh.DeviceMesh
        mesh.__init__ = mesh_of_cpus(mesh.__init__)
    torch.set_default_device = default_on(torch.set_default_device, target)
    torch.set_default_tensor_type = default_on(torch.set_default_tensor_type, target)
    torch.load = load_to(torch.load, target)
    ddp = torch.nn.parallel.DistributedDataParallel
    ddp.__init__ = ddp_on(ddp.__init__, target)


def in_threads(target: torch.device) -> None:
    """Modes belong to threads, so new threads get one too."""
    start = threading.Thread.start

    @functools.wraps(start)
    def start_mapped(thread):
        run = thread.run

        def run_mapped():
            with OneDevice(target):
                run()

        thread.run = run_mapped
        start(thread)

    threading.Thread.start = start_mapped


def generators(real: type) -> type:
    """torch.Generator(device="cuda") makes one of the CPU; isinstance treats both as the same."""

    class Kind(type(real)):
        def __instancecheck__(cls, value):
            return isinstance(value, real)

    class Generator(real, metaclass=Kind):
        def __new__(cls, device: Any = "cpu"):
            return real("cpu")

    return Generator


def mesh_of_cpus(init: Any) -> Any:
    @functools.wraps(init)
    def mesh_init(self, device_type, *rest, **named):
        init(self, "cpu" if device_type == "cuda" else device_type, *rest, **named)

    return mesh_init


def default_on(set_default: Any, target: torch.device) -> Any:
    """Wraps a function that sets the default device, or the default tensor type."""

    @functools.wraps(set_default)
    def set_mapped(device):
        set_default(target if type(device) is int else mapped(device, target))

    return set_mapped


def without_gpus(to: Any, target: torch.device) -> Any:
    @functools.wraps(to)
    def module_to(module, *arguments, **named):
        arguments = [target if type(a) is int else mapped(a, target) for a in arguments]
        if "device" in named:
            device = named["device"]
            named["device"] = target if type(device) is int else mapped(device, target)
        return to(module, *arguments, **named)

    return module_to


def load_to(load: Any, target: torch.device) -> Any:
    @functools.wraps(load)
    def load_mapped(file, map_location=None, *rest, **named):
        if isinstance(map_location, dict):
            map_location = {old: str(mapped(new, target)) for old, new in map_location.items()}
            map_location.setdefault("cuda:0", str(target))
        elif not callable(map_location):
            map_location = mapped(map_location, target)
        return load(file, map_location, *rest, **named)

    return load_mapped


def ddp_on(init: Any, target: torch.device) -> Any:
    @functools.wraps(init)
    def ddp_init(self, module, device_ids=None, output_device=None, *rest, **named):
        if target.type == "cpu" or device_ids is None:
            device_ids = output_device = None
        else:
            device_ids, output_device = [target], target
        init(self, module, device_ids, output_device, *rest, **named)

    return ddp_init


def autocast_too() -> None:
    """Under autocast("cuda") the CPU computes in the type that the GPU would have used."""
    kind = torch.amp.autocast_mode.autocast
    enter, leave = kind.__enter__, kind.__exit__

    @functools.wraps(enter)
    def enter_both(self):
        if self.device == "cuda":
            inner = kind("cpu", self.fast_dtype, self._enabled, self._cache_enabled)
            if not hasattr(self, "_rondo_inner"):
                self._rondo_inner = []
            self._rondo_inner.append(inner)
            inner.__enter__()
        return enter(self)

    @functools.wraps(leave)
    def leave_both(self, *what):
        left = leave(self, *what)
        if self.device == "cuda":
            self._rondo_inner.pop().__exit__(*what)
        return left

    kind.__enter__, kind.__exit__ = enter_both, leave_both


def capturable_here() -> None:
    """Optimizers with capturable=True refuse parameters on the CPU; here they are allowed."""
    name = "_get_capturable_supported_devices"  # private: without it they raise an error
    supported = getattr(sys.modules.get("torch.optim.optimizer"), name, None)
    if supported is None:
        return

    @functools.wraps(supported)
    def with_cpu(*arguments, **named):
        return [*supported(*arguments, **named), "cpu"]

    for module in [m for n, m in list(sys.modules.items()) if n.startswith("torch.optim")]:
        if getattr(module, name, None) is supported:
            setattr(module, name, with_cpu)


def one_replica() -> None:
    """All GPUs of DataParallel are the CPU: its module runs once."""

    def init(self, module, device_ids: Any = None, output_device: Any = None, dim: int = 0):
        torch.nn.Module.__init__(self)
        self.module, self.device_ids, self.dim = module, [], dim

    torch.nn.DataParallel.__init__ = init


class NoGpu(RuntimeError):
    """What a program for GPUs gets where torch finds none."""


def explain_missing() -> None:
    """Without --device: the error says what to add. If the program does not catch it, one line on
    stderr says so, and where the program asked for a GPU."""

    def with_remedy(function):
        @functools.wraps(function)
        def call(*arguments, **named):
            try:
                return function(*arguments, **named)
            except NoGpu:
                raise
            except (AttributeError, AssertionError, RuntimeError) as error:
                if torch.cuda.is_available():
                    raise
                reason = str(error).strip().partition("\n")[0].rstrip(" :")
            raise NoGpu(
                f"torch finds no GPU here ({reason}); to run the program on the CPU, add "
                "--device cpu to rondo.torch.run"
            )

        return call

    torch.cuda.set_device = with_remedy(torch.cuda.set_device)
    torch.cuda._lazy_init = with_remedy(torch.cuda._lazy_init)
    torch.cuda.Stream.__new__ = staticmethod(with_remedy(torch.cuda.Stream.__new__))
    torch.accelerator.set_device_index = with_remedy(torch.accelerator.set_device_index)
    sys.excepthook = in_one_line(sys.excepthook)


def in_one_line(before: Callable) -> Callable:
    ours = (os.path.dirname(torch.__file__), os.path.dirname(__file__))

    def hook(kind: type, error: BaseException, trace: Any) -> None:
        if kind is not NoGpu:
            return before(kind, error, trace)
        frames = traceback.extract_tb(trace)
        place = next((f for f in reversed(frames) if not f.filename.startswith(ours)), frames[0])
        print(f"rondo: {place.filename}:{place.lineno}: {error}", file=sys.stderr)

    return hook
