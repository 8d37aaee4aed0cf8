# SPDX-License-Identifier: Apache-2.0
import pytest


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also the tests marked slow")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: left out unless --slow is given")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--slow"):
        return
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="slow: bash tests/run.sh torch_all"))
