# SPDX-License-Identifier: Apache-2.0
"""The module cupy.cuda.nccl, or where CuPy is not installed the C calls that CuPy 14 makes for it.

`nccl` is the one or the other; `is_real` says which. Only what as_cupy.py uses.
"""

import ctypes
import types

try:
    from cupy.cuda import nccl

    is_real = bool(nccl.available)
except ImportError:
    is_real = False


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Error(RuntimeError):
    pass


def call(name: str, *arguments) -> None:
    library = ctypes.CDLL("libnccl.so.2")
    status = getattr(library, name)(*arguments)
    if status != 0:
        library.ncclGetErrorString.restype = ctypes.c_char_p
        raise Error(f"{name}: {library.ncclGetErrorString(status).decode()}")


def pointer(value):
    return ctypes.c_void_p(value)


def get_unique_id() -> bytes:
    unique = UniqueId()
    call("ncclGetUniqueId", ctypes.byref(unique))
    return bytes(unique)


class NcclCommunicator:
    def __init__(self, size: int, unique: bytes, rank: int) -> None:
        ticket, self.comm = UniqueId.from_buffer_copy(unique), ctypes.c_void_p()
        call("ncclCommInitRankConfig", ctypes.byref(self.comm), size, ticket, rank, None)

    @classmethod
    def _of(cls, comm):
        made = cls.__new__(cls)
        made.comm = ctypes.c_void_p(comm)
        return made

    @classmethod
    def initAll(cls, devices) -> list:
        numbers = list(range(devices)) if isinstance(devices, int) else devices
        comms = (ctypes.c_void_p * len(numbers))()
        call("ncclCommInitAll", comms, len(numbers), (ctypes.c_int * len(numbers))(*numbers))
        return [cls._of(comm) for comm in comms]

    def commSplit(self, color: int, key: int, config=None):
        child = ctypes.c_void_p()
        call("ncclCommSplit", self.comm, color, key, ctypes.byref(child), None)
        return self._of(child.value) if child.value else None

    def _number(self, name: str) -> int:
        number = ctypes.c_int()
        call(name, self.comm, ctypes.byref(number))
        return number.value

    def device_id(self) -> int:
        return self._number("ncclCommCuDevice")

    def rank_id(self) -> int:
        return self._number("ncclCommUserRank")

    def size(self) -> int:
        return self._number("ncclCommCount")

    def check_async_error(self) -> None:
        if self._number("ncclCommGetAsyncError") != 0:
            raise Error("an asynchronous error")

    def destroy(self) -> None:
        if self.comm:
            call("ncclCommDestroy", self.comm)
        self.comm = None

    def _collective(self, name, send, receive, count, *rest_and_stream) -> None:
        *rest, stream = rest_and_stream
        buffers = [pointer(send), pointer(receive), ctypes.c_size_t(count)]
        call(name, *buffers, *rest, self.comm, pointer(stream))

    def allReduce(self, *arguments) -> None:
        self._collective("ncclAllReduce", *arguments)

    def reduce(self, *arguments) -> None:
        self._collective("ncclReduce", *arguments)

    def broadcast(self, *arguments) -> None:
        self._collective("ncclBroadcast", *arguments)

    def reduceScatter(self, *arguments) -> None:
        self._collective("ncclReduceScatter", *arguments)

    def allGather(self, *arguments) -> None:
        self._collective("ncclAllGather", *arguments)

    def _one_buffer(self, name, buffer, count, datatype, other, stream) -> None:
        call(name, pointer(buffer), ctypes.c_size_t(count), datatype, other, self.comm,
             pointer(stream))  # fmt: skip

    def bcast(self, *arguments) -> None:
        self._one_buffer("ncclBcast", *arguments)

    def send(self, *arguments) -> None:
        self._one_buffer("ncclSend", *arguments)

    def recv(self, *arguments) -> None:
        self._one_buffer("ncclRecv", *arguments)


if not is_real:
    nccl = types.SimpleNamespace(
        NCCL_INT64=4, NCCL_FLOAT32=7, NCCL_FLOAT64=8, NCCL_SUM=0, NCCL_PROD=1, NCCL_MAX=2,
        get_unique_id=get_unique_id, NcclCommunicator=NcclCommunicator, NcclError=Error,
        groupStart=lambda: call("ncclGroupStart"), groupEnd=lambda: call("ncclGroupEnd"),
    )  # fmt: skip
