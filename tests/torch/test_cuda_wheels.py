"""Our library exports all that PyTorch's CUDA builds import from NCCL, so they load."""

import ctypes
import pathlib

import pytest
from rondo.torch.library import path

LISTS = sorted((pathlib.Path(__file__).parent / "cuda_wheels").glob("nccl_imports_*.txt"))
EXPORTS = pathlib.Path(__file__).parents[1] / "abi" / "nccl_exports.txt"


@pytest.mark.parametrize("imports", LISTS, ids=lambda file: file.stem.rsplit("_", 1)[1])
def test_every_name_that_libtorch_cuda_imports_is_exported(imports):
    names = imports.read_text().split()
    assert len(names) >= 38  # torch 2.11.0's
    library = ctypes.CDLL(path())
    assert [name for name in names if not hasattr(library, name)] == []
    # libnccl.so.2, which is preloaded, is checked against this list (abi.exports_nccl).
    listed = {line.split()[1] for line in EXPORTS.read_text().splitlines()}
    assert set(names) <= listed


def test_four_releases_are_known():
    assert len(LISTS) == 4
