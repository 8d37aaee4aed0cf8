# SPDX-License-Identifier: Apache-2.0
"""Our library exports all that PyTorch's CUDA builds import from NCCL, so they load."""

import ctypes
import pathlib

from rondo.torch.library import path

TESTS = pathlib.Path(__file__).parents[1]
IMPORTS = TESTS / "torch" / "cuda_wheels" / "nccl_imports.txt"
EXPORTS = TESTS / "abi" / "nccl_exports.txt"


def test_every_name_that_libtorch_cuda_imports_is_exported():
    rows = [line.split() for line in IMPORTS.read_text().splitlines()]
    names = [name for name, *_ in rows]
    releases = {version for _, *versions in rows for version in versions}
    assert len(names) >= 51 and len(releases) == 4
    library = ctypes.CDLL(path())
    assert [name for name in names if not hasattr(library, name)] == []
    # libnccl.so.2, which is preloaded, is checked against this list (abi.exports_nccl).
    assert set(names) <= set(EXPORTS.read_text().split())
