# SPDX-License-Identifier: Apache-2.0
"""rondo.torch.run --device cpu, without ranks: the tests of pretended/ on torch.cuda and more."""

import pathlib
import sys

import pytest
from test_launcher import RUN, call

TESTS = pathlib.Path(__file__).parent


@pytest.mark.parametrize("what", ["names", "training"])
def test_gpus_that_are_the_cpu(what, request):
    slow = ["--slow"] if request.config.getoption("--slow") else []
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", "--rootdir", TESTS, *slow]
    text = call(
        [*RUN, "--device", "cpu", "--devices", "2", "-m", "pytest", *options,
         TESTS / "pretended" / f"{what}.py"]
    )  # fmt: skip
    assert " passed" in text


def test_nothing_is_pretended_where_nobody_asked():
    code = "import torch; assert not torch.cuda.is_available() or torch.version.cuda"
    call([sys.executable, "-c", code])
