# SPDX-License-Identifier: Apache-2.0
"""Dictionaries of tensors as messages: what one stage of a pipeline gives to the next.

Three kinds of messages to the peer, in this order: the length of the description; the description,
which holds keys, types, shapes and the values that are no tensors; each tensor that has elements.
A send returns when its bytes are buffered (up to RONDO_EAGER_BYTES) or received.
"""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import torch

from rondo.torch.process_group import RondoProcessGroup


class Described(NamedTuple):
    shape: torch.Size
    dtype: torch.dtype


def send(group: RondoProcessGroup, values: dict[str, Any], peer: int) -> None:
    tensors = [v for v in values.values() if isinstance(v, torch.Tensor)]
    description = {
        key: Described(value.shape, value.dtype) if isinstance(value, torch.Tensor) else value
        for key, value in values.items()
    }
    text = torch.frombuffer(bytearray(pickle.dumps(description)), dtype=torch.uint8)
    messages = [torch.tensor([text.numel()]), text, *(t for t in tensors if t.numel())]
    for work in [group.send([message], peer) for message in messages]:
        work.wait()


def receive(group: RondoProcessGroup, peer: int) -> dict[str, Any]:
    length = torch.empty(1, dtype=torch.int64)
    group.recv([length], peer).wait()
    text = torch.empty(int(length), dtype=torch.uint8)
    group.recv([text], peer).wait()
    values = pickle.loads(text.numpy().tobytes())
    works = []
    for key, value in values.items():
        if not isinstance(value, Described):
            continue
        values[key] = torch.empty(value.shape, dtype=value.dtype)
        if values[key].numel():
            works.append(group.recv([values[key]], peer))
    for work in works:
        work.wait()
    return values
