"""Build hook: compiles librondo with CMake, and the C module, and puts both into the wheel.

The library needs only glibc, the module only CPython's stable ABI, so one wheel (cp310-abi3) serves
every Python from 3.10 on and every torch. CMAKE_ARGS holds more options for CMake.
"""

import os
import pathlib
import subprocess
import sys
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TOP = pathlib.Path(__file__).resolve().parents[2]


def glibc() -> str:
    """ "2.36": the oldest C library that what is built here will run with."""
    return os.confstr("CS_GNU_LIBC_VERSION").split()[1]


def run(command: list, environment: dict) -> None:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")


def build_module(folder: pathlib.Path) -> pathlib.Path:
    headers = pathlib.Path(sysconfig.get_config_var("INCLUDEPY"))
    if not (headers / "Python.h").exists():
        sys.exit(f"{headers} has no Python.h: install this Python's headers (Debian: python3-dev)")
    module = folder / "usual_calls.abi3.so"
    source = pathlib.Path(__file__).with_name("usual_calls.c")
    options = ["-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", f"-I{headers}"]
    run([os.environ.get("CC", "cc"), *options, source, "-o", module], {**os.environ})
    return module


def build() -> pathlib.Path:
    folder = pathlib.Path(os.environ.get("RONDO_BUILD_DIR", TOP / "build" / "wheel"))
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count()))
    options = ["-DRONDO_PORTABLE=ON", "-DCMAKE_UNITY_BUILD=ON"]
    options += os.environ.get("CMAKE_ARGS", "").split()
    # ccache then shares compilations with the other builds of this tree.
    environment = {"CCACHE_BASEDIR": str(TOP), "CCACHE_NOHASHDIR": "1", **os.environ}
    for command in (
        ["cmake", "-S", TOP, "-B", folder, "-G", "Ninja", *options],
        ["cmake", "--build", folder, "--target", "rondo_shared", "-j", jobs],
    ):
        run(command, environment)
    return folder


class Hook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        if version == "editable":
            return
        folder = build()
        files = {"librondo.so.1": folder / "lib" / "librondo.so.1"}
        files["usual_calls.abi3.so"] = build_module(folder)
        build_data["pure_python"] = False
        build_data["tag"] = f"cp310-abi3-manylinux_{glibc().replace('.', '_')}_{os.uname().machine}"
        for name, file in files.items():
            build_data["force_include"][str(file)] = f"rondo/torch/{name}"
