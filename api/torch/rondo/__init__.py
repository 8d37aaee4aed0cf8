# SPDX-License-Identifier: Apache-2.0
"""Rondo: collective communication. `rondo.torch` is its backend for torch.distributed.

Its distribution is `rondo-ccl`. PyPI's `rondo` is another project, with a module of this name.
"""


def _name_the_other() -> None:
    """Warns where a distribution `rondo` is installed too: both own files below rondo/."""
    import importlib.metadata
    import warnings

    try:
        other = importlib.metadata.version("rondo")
    except importlib.metadata.PackageNotFoundError:
        return
    warnings.warn(
        f"the distribution rondo {other} (another project, or an old wheel of this one) is "
        "installed beside rondo-ccl and has files of the same names: pip uninstall rondo, then "
        "pip install --force-reinstall --no-deps rondo-ccl",
        stacklevel=3,
    )


_name_the_other()


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module 'rondo' has no attribute '{name}'")
    import importlib.metadata

    return importlib.metadata.version("rondo-ccl")
