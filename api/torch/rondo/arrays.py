# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays and CPU tensors of torch as the C interface needs them: dense host memory.

Imports neither NumPy nor torch: what the caller passes tells which it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

INT8, UINT8 = 0, 1
TYPES = {
    "int8": INT8, "uint8": UINT8, "bool": UINT8, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5,
    "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9, "float8_e4m3fn": 10, "float8_e5m2": 11,
    "int16": 64, "uint16": 65,
}  # fmt: skip
COMPLEX = {"complex64": "float32", "complex128": "float64"}

OPS = {
    "sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4,
    "band": 0x7FFFFFF0, "bor": 0x7FFFFFF1, "bxor": 0x7FFFFFF2,
}  # fmt: skip
# True is stored as 1, so `or` is max and `and` is min.
BOOL_OPS = {
    name: OPS[of]
    for name, of in {
        "sum": "max", "max": "max", "bor": "max", "prod": "min", "min": "min", "band": "min",
        "bxor": "bxor",
    }.items()
}  # fmt: skip


class Dense:
    """Dense memory with an array's contents: the array itself, or a copy.

    place, count, type: as C functions take them. finish() copies results back into the array.
    """

    def __init__(self, array: Any, written: bool) -> None:
        self._array, self._copied = array, False
        take = self._take_tensor if hasattr(array, "data_ptr") else self._take_numpy
        take(array, written)
        self.bytes = self.elements * self._item
        self.type, self.count = UINT8, self.bytes
        if (known := TYPES.get(self.name)) is not None:
            self.type, self.count = known, self.elements

    def _take_numpy(self, array: Any, written: bool) -> None:
        if not hasattr(array, "__array_interface__"):
            raise TypeError(
                f"rondo: a {type(array).__name__} is neither a NumPy array nor a tensor of torch; "
                "convert it, for example by numpy.asarray"
            )
        if array.dtype.hasobject:
            raise TypeError(f"rondo: an array of {array.dtype} holds Python objects, not numbers")
        if written and not array.flags.writeable:
            raise ValueError(
                "rondo: the result would go into a read-only array; copy it first (array.copy()). "
                "Ray passes arguments of tasks and actors as read-only arrays"
            )
        self._dense = array if array.flags.c_contiguous else array.copy(order="C")
        self._copied = self._dense is not array
        self.name, self.elements, self._item = array.dtype.name, array.size, array.itemsize
        self.place = self._dense.__array_interface__["data"][0]

    def _take_tensor(self, tensor: Any, written: bool) -> None:
        if tensor.device.type != "cpu" or tensor.is_sparse:
            kind = "a sparse tensor" if tensor.is_sparse else f"a tensor on {tensor.device}"
            raise TypeError(f"rondo: {kind} has no dense host memory; pass tensor.cpu().to_dense()")
        self._array = plain = tensor.detach()
        self._dense = plain.resolve_conj().resolve_neg().contiguous()
        self._copied = self._dense.data_ptr() != plain.data_ptr() or plain.is_conj()
        self.name = str(tensor.dtype).removeprefix("torch.")
        self.elements, self._item = tensor.numel(), tensor.element_size()
        self.place = self._dense.data_ptr()

    def finish(self) -> None:
        if not self._copied:
            return
        if hasattr(self._array, "data_ptr"):
            self._array.copy_(self._dense)
        else:
            self._array[...] = self._dense

    def reduced_by(self, op: str) -> tuple[int, int, int]:
        """Count, type and operation; TypeError if the elements cannot be reduced so."""
        if op not in OPS:
            raise ValueError(f"rondo: {op!r} is no operation; there are {', '.join(OPS)}")
        if (part := COMPLEX.get(self.name)) and op in ("sum", "avg"):
            return 2 * self.elements, TYPES[part], OPS[op]
        number = BOOL_OPS.get(op) if self.name == "bool" else OPS[op]
        bitwise = op in ("band", "bor", "bxor")
        if self.name not in TYPES or number is None or (bitwise and "float" in self.name):
            raise TypeError(f"rondo: {op!r} is not defined for elements of {self.name}")
        return self.count, self.type, number


def expect_alike(one: Dense, other: Dense, parts: int, call: str) -> None:
    """one has the elements of all `parts` parts, and other those of each."""
    if one.bytes != parts * other.bytes or one.name != other.name:
        raise ValueError(
            f"rondo: {call}: {one.elements} x {one.name} are not {parts} times "
            f"{other.elements} x {other.name}"
        )


class Parts:
    """Arrays of one size and type as consecutive memory; a single array is taken as it is."""

    def __init__(self, arrays: Any, size: int, like: Dense, written: bool, call: str) -> None:
        self._parts: list[Dense] = []
        if not isinstance(arrays, Sequence):
            self.whole = Dense(arrays, written)
            expect_alike(self.whole, like, size, call)
            self.place = self.whole.place
            return
        if len(arrays) != size:
            raise ValueError(f"rondo: {call}: {len(arrays)} arrays for {size} ranks")
        self._parts = [Dense(array, written) for array in arrays]
        for part in self._parts:
            expect_alike(part, like, 1, call)
        self._memory = ctypes.create_string_buffer(max(1, size * like.bytes))
        self.place = ctypes.addressof(self._memory)
        for rank, part in enumerate([] if written else self._parts):
            ctypes.memmove(self.place + rank * part.bytes, part.place, part.bytes)

    def finish(self) -> None:
        if not self._parts:
            return self.whole.finish()
        for rank, part in enumerate(self._parts):
            ctypes.memmove(part.place, self.place + rank * part.bytes, part.bytes)
            part.finish()
