# SPDX-License-Identifier: Apache-2.0
"""Releases of torch that Rondo serves, and what errors of other ones say.

    with explained():
        from rondo.torch.process_group import RondoProcessGroup

A torch that is too old is refused. Rondo also uses private names of torch, and a torch that is
newer than the newest tested one may lack them: such an error says which releases are tested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

OLDEST, NEWEST = (2, 12), (2, 15)  # tested: these and all between them


def text_of(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"


TESTED = f"tested are {text_of(OLDEST)} to {text_of(NEWEST)}"


def installed() -> tuple[str, tuple[int, int]]:
    """torch's version and its release. A version without numbers counts as tested."""
    import torch

    version = str(torch.__version__)
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return version, (int(numbers[1]), int(numbers[2])) if numbers else NEWEST


def refuse_old() -> None:
    version, release = installed()
    if release < OLDEST:
        raise ImportError(
            f"rondo: torch {version} is installed; Rondo needs {text_of(OLDEST)} or newer "
            f"({TESTED}): pip install -U torch"
        )


@contextmanager
def explained() -> Iterator[None]:
    """Around imports of modules, and calls, that use torch's private names."""
    refuse_old()
    try:
        yield
    except (ImportError, AttributeError) as error:
        version, release = installed()
        if release <= NEWEST or str(error).startswith("rondo: "):  # Rondo's own say what to do
            raise
        raise type(error)(f"rondo: {error}; torch {version}: {TESTED}") from error
