# SPDX-License-Identifier: Apache-2.0
"""check_system.py LIBRARY: on a system on which Rondo's library cannot run, the first import that
loads it says in one line what is missing. pip refuses these systems by the wheel's tag."""

import os
import pathlib
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = TOP / "api" / "torch"
sys.path.insert(0, str(PACKAGE))
sys.dont_write_bytecode = True

from rondo import system  # noqa: E402


def the_reason_is_named() -> None:
    absent = "/lib/libc.so.6: version `GLIBC_2.34' not found (required by /x/librondo.so.1)"
    newer = absent.replace("2.34", "2.9")
    assert system.lack(newer + absent, libc="2.17", pointer_bytes=8) == (
        "this wheel of Rondo needs glibc 2.34; here is 2.17: build it here"
    )
    assert "another C library (musl?)" in system.lack("symbol not found", libc="", pointer_bytes=8)
    assert "32 bits" in system.lack("wrong ELF class", libc="2.36", pointer_bytes=4)
    assert system.lack("no such file", libc="2.36", pointer_bytes=8) == ""
    assert system.lack("no such file") == "", "nothing is missing here"
    assert system.glibc() == os.confstr("CS_GNU_LIBC_VERSION").split()[1]


def load(library: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "RONDO_LIBRARY": library}
    command = [sys.executable, "-B", "-c", "import rondo.communicator"]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def needs_a_newer_glibc(folder: pathlib.Path) -> str:
    """A library that asks for a symbol of glibc 2.99."""
    (folder / "libc.c").write_text("int absent(void) { return 0; }\n")
    (folder / "libc.map").write_text("GLIBC_2.99 { global: absent; };\n")
    (folder / "rondo.c").write_text("int absent(void);\nint rondo(void) { return absent(); }\n")
    shared = ["cc", "-shared", "-fPIC", "-nostdlib"]
    for command in (
        [*shared, "libc.c", "-Wl,-soname,libc.so.6,--version-script=libc.map", "-o", "libc.so"],
        [*shared, "rondo.c", "libc.so", "-o", "librondo.so.1"],
    ):
        subprocess.run(command, cwd=folder, check=True)
    return str(folder / "librondo.so.1")


def the_first_import_names_it() -> None:
    (library,) = sys.argv[1:]
    assert load(library).returncode == 0
    with tempfile.TemporaryDirectory() as folder:
        done = load(needs_a_newer_glibc(pathlib.Path(folder)))
        assert done.returncode == 1, done
        line = done.stderr.splitlines()[-1]
        assert (
            line.startswith("ImportError: rondo: cannot load ")
            and "needs glibc 2.99; here is " + system.glibc() in line
        ), line
        done = load(folder + "/none.so")
        assert "none.so: cannot open shared object file" in done.stderr, done
        assert "RONDO_LIBRARY" in done.stderr, done


if __name__ == "__main__":
    the_reason_is_named()
    the_first_import_names_it()
    print("each reason is named in one line")
