# SPDX-License-Identifier: Apache-2.0
"""What a system lacks on which the wheel's libraries and the command cannot run. pip refuses such
systems by the wheel's tag; on some the files are unpacked or copied all the same."""

import os
import re
import struct


def glibc() -> str:
    """Its version; "" for another C library, such as musl."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    except (AttributeError, OSError, ValueError):
        return ""


def lack(error: str, *, pointer_bytes: int = struct.calcsize("P"), libc: str | None = None) -> str:
    """One sentence; "" if the reason of the system's error is another one."""
    libc = glibc() if libc is None else libc
    if pointer_bytes != 8:
        return f"Rondo needs a 64-bit Python; this one has {8 * pointer_bytes} bits"
    if not libc:
        return "Rondo's wheel needs glibc; this Python has another C library (musl?): build it here"
    needed = re.findall(r"GLIBC_(2\.\d+)' not found", error)
    if needed:
        newest = max(needed, key=lambda version: int(version.split(".")[1]))
        return f"this wheel of Rondo needs glibc {newest}; here is {libc}: build it here"
    return ""
