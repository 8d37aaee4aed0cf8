"""Build hook: compiles librondo with CMake and puts it into the wheel.

The library needs only glibc, so one wheel (py3-none) serves every Python and every torch.
CMAKE_ARGS holds more options for CMake.
"""

import os
import pathlib
import subprocess
import sys

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TOP = pathlib.Path(__file__).resolve().parents[2]


def glibc() -> str:
    """ "2.36": the oldest C library that what is built here will run with."""
    return os.confstr("CS_GNU_LIBC_VERSION").split()[1]


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
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return folder / "lib" / "librondo.so.1"


class Hook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        if version == "editable":
            return
        library = build()
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_{glibc().replace('.', '_')}_{os.uname().machine}"
        build_data["force_include"][str(library)] = "rondo/torch/librondo.so.1"
