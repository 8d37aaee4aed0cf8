# SPDX-License-Identifier: Apache-2.0
"""Converts result codes to exceptions with the engine's message."""

from torch.distributed import DistBackendError

from rondo import library
from rondo.torch.library import SUCCESS

# torch's timeout replaces the library's, so messages must name torch's.
LIMITS = ("RONDO_TIMEOUT sets this limit", "the communicator's timeout sets this limit")
LIMIT_HERE = "the timeout of the group or of this call sets this limit"


def last_error() -> str:
    sentence = library.last_error()
    for limit in LIMITS:
        sentence = sentence.replace(limit, LIMIT_HERE)
    return sentence


def error_now(result: int) -> DistBackendError:
    """The error of the last call of this thread."""
    return DistBackendError(f"rondo: {last_error()} (result {result})")


def check(result: int) -> None:
    if result != SUCCESS:
        raise error_now(result)
