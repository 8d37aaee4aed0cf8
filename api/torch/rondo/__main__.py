# SPDX-License-Identifier: Apache-2.0
"""The command rondo of the wheel: python -m rondo ARGUMENTS, and the script rondo."""

import os
import pathlib
import sys

from rondo import system

ROOT = pathlib.Path(__file__).resolve().parent  # a prefix: bin, lib, include, share


def start(name: str) -> None:
    program = str(ROOT / "bin" / "rondo")
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except OSError as error:
        reason = system.lack(str(error)) or f"{error}; install the wheel rondo-ccl"
        sys.exit(f"rondo: cannot start {program}: {reason}")


def perf() -> None:
    """The scripts under nccl-tests' names: all_reduce_perf."""
    start(pathlib.Path(sys.argv[0]).name)


def main() -> None:
    if sys.argv[1:] == ["prefix"]:  # for CMAKE_PREFIX_PATH and PKG_CONFIG_PATH
        print(ROOT)
        return
    start("rondo")


if __name__ == "__main__":
    main()
