# SPDX-License-Identifier: Apache-2.0
"""What the client programs share: the CUDA runtime by ctypes, and ranks that are processes.

A program is started as `program.py LIBCUDART RANKS ...`, under LD_PRELOAD of the library that is
checked. It starts itself once for every rank and gives up after 300 s. LIBCUDART is a path or a
name, of the real library or of the emulated one; "host": there is no device, arrays are host memory
and the only stream is 0.
"""

import contextlib
import ctypes
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

SECONDS = 300
TO_DEVICE, TO_HOST = 1, 2


class Runtime:
    """Arrays, streams and graphs of device `device`."""

    def __init__(self, name: str, device: int = 0) -> None:
        self.host = name == "host"
        if self.host:
            return
        self.cudart = ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
        self.call("cudaSetDevice", ctypes.c_int(device))

    def call(self, name: str, *arguments) -> None:
        status = getattr(self.cudart, name)(*arguments)
        assert status == 0, f"{name}: error {status}"

    def stream(self) -> int:
        if self.host:
            return 0
        made = ctypes.c_void_p()
        self.call("cudaStreamCreateWithFlags", ctypes.byref(made), ctypes.c_uint(1))
        return made.value

    def wait(self, stream: int = 0) -> None:
        if not self.host:
            self.call("cudaStreamSynchronize", ctypes.c_void_p(stream))

    def record(self, stream: int, enqueue) -> ctypes.c_void_p:
        """What enqueue() puts on the stream, as a graph that can be launched."""
        graph, runnable = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cudaStreamBeginCapture", ctypes.c_void_p(stream), ctypes.c_int(2))  # relaxed
        enqueue()
        self.call("cudaStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
        self.call("cudaGraphInstantiate", ctypes.byref(runnable), graph, ctypes.c_ulonglong(0))
        return runnable

    def replay(self, graph: ctypes.c_void_p, stream: int) -> None:
        self.call("cudaGraphLaunch", graph, ctypes.c_void_p(stream))

    def array(self, values, element=ctypes.c_float) -> "Array":
        return Array(self, list(values), element)


class Array:
    """Numbers in memory of the device; `pointer` is what C functions take."""

    def __init__(self, runtime: Runtime, values: list, element) -> None:
        self.runtime, self.element, self.count = runtime, element, len(values)
        self.bytes = ctypes.sizeof(element) * max(self.count, 1)
        if runtime.host:
            self.memory = (element * max(self.count, 1))()
            self.pointer = ctypes.addressof(self.memory)
        else:
            place = ctypes.c_void_p()
            runtime.call("cudaMalloc", ctypes.byref(place), ctypes.c_size_t(self.bytes))
            self.pointer = place.value
        self.set(values)

    @classmethod
    def over(cls, runtime: Runtime, pointer: int, count: int, element=ctypes.c_float) -> "Array":
        """Memory that somebody else allocated."""
        array = cls.__new__(cls)
        array.runtime, array.element, array.count = runtime, element, count
        array.bytes, array.pointer = ctypes.sizeof(element) * count, pointer
        return array

    def at(self, index: int) -> int:
        return self.pointer + index * ctypes.sizeof(self.element)

    def _copy(self, to: int, source: int, direction: int) -> None:
        self.runtime.call("cudaMemcpy", ctypes.c_void_p(to), ctypes.c_void_p(source),
                          ctypes.c_size_t(self.bytes), ctypes.c_int(direction))  # fmt: skip

    def set(self, values) -> None:
        host = (self.element * max(self.count, 1))(*values)
        if self.runtime.host:
            ctypes.memmove(self.pointer, host, self.bytes)
        else:
            self._copy(self.pointer, ctypes.addressof(host), TO_DEVICE)
            # From pageable memory cudaMemcpy returns before the last bytes arrive, and other
            # streams do not wait for them.
            self.runtime.call("cudaStreamSynchronize", ctypes.c_void_p(None))

    def get(self) -> list:
        host = (self.element * max(self.count, 1))()
        if self.runtime.host:
            ctypes.memmove(host, self.pointer, self.bytes)
        else:
            self._copy(ctypes.addressof(host), self.pointer, TO_HOST)
        return list(host[: self.count])


class Board:
    """A few bytes under a name, for all ranks of a run."""

    def __init__(self, folder: str) -> None:
        self.folder = pathlib.Path(folder)

    def post(self, name: str, what: bytes) -> None:
        draft = self.folder / f"{name}.{os.getpid()}"
        draft.write_bytes(what)
        draft.rename(self.folder / name)

    def read(self, name: str) -> bytes:
        deadline = time.monotonic() + SECONDS
        while not (self.folder / name).exists():
            assert time.monotonic() < deadline, f"nobody posted {name}"
            time.sleep(0.005)
        return (self.folder / name).read_bytes()


def free_port() -> int:
    """Outside the kernel's ephemeral range: no other connection can take it before its use."""
    for port in range(15000 + os.getpid() * 37 % 15000, 32000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port
    raise OSError("no port is free")


def calls_of(function: str) -> int:
    """As the library counts them; that NVIDIA's cannot say so proves which one is in use."""
    calls = ctypes.c_uint64()
    library = ctypes.CDLL("libnccl.so.2")
    assert library.rondoGetCallCount(function.encode(), ctypes.byref(calls)) == 0
    return calls.value


def run_ranks(be_a_rank, prepare=None) -> int:
    """be_a_rank(rank, ranks, libcudart, board) in RANKS processes; prepare(board) in this one."""
    libcudart, ranks = sys.argv[1], int(sys.argv[2])
    if "CLIENT_RANK" in os.environ:
        board = Board(os.environ["CLIENT_BOARD"])
        be_a_rank(int(os.environ["CLIENT_RANK"]), ranks, libcudart, board)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        if prepare:
            prepare(Board(folder))
        environment = {**os.environ, "CLIENT_BOARD": folder}
        started = [
            subprocess.Popen([sys.executable, *sys.argv],
                             env={**environment, "CLIENT_RANK": str(rank)})
            for rank in range(ranks)
        ]  # fmt: skip
        codes = []
        for process in started:
            try:
                codes.append(process.wait(timeout=SECONDS))
            except subprocess.TimeoutExpired:
                process.kill()
                codes.append(124)
    name = pathlib.Path(sys.argv[0]).name
    print(f"{name}: {ranks} ranks, exit codes {codes}", flush=True)
    return 1 if any(codes) else 0
