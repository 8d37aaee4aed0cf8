# SPDX-License-Identifier: Apache-2.0
"""Build hook of rondo-ccl-cu13: libnccl.so.2 with kernels for GPUs. Needs nvcc 13.

CMAKE_ARGS holds more options for CMake, for example -DCMAKE_CUDA_ARCHITECTURES=90-real.
"""

import importlib.util
import os
import pathlib

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = pathlib.Path(__file__).resolve().parent
_spec = importlib.util.spec_from_file_location(
    "build_library", HERE.parent / "torch" / "build_library.py"
)
library = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(library)


def version() -> str:
    return library.version()


class CudaHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        if version == "editable":
            return
        staged = library.TOP / "build" / "wheel-cu13-tree"
        library.build(
            staged,
            folder=pathlib.Path(
                os.environ.get("RONDO_BUILD_DIR", library.TOP / "build" / "wheel-cu13")
            ),
            options=("-DRONDO_GPU=cuda",),
            targets=["nccl_shared", "rondo_audit"],
            components=["cuda"],
        )
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{library.platform_tag(staged)}"
        build_data["force_include"][str(staged / "lib")] = "rondo_cu13/lib"
