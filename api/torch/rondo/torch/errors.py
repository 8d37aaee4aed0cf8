"""From result codes to exceptions that say what the engine says."""

from torch.distributed import DistBackendError

from rondo.torch.library import SUCCESS, lib


def last_error() -> str:
    text = lib.ncclGetLastError(None)
    return text.decode(errors="replace") if text else "no explanation was given"


def error_now(result: int) -> DistBackendError:
    """Of the call that this thread has just made."""
    return DistBackendError(f"rondo: {last_error()} (result {result})")


def check(result: int) -> None:
    if result != SUCCESS:
        raise error_now(result)
