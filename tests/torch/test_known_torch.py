# SPDX-License-Identifier: Apache-2.0
"""A torch that is too old or too new for Rondo: each place where Rondo is plugged in names it.

Modules in place of torch, vLLM, SGLang and torchft have only what Rondo needs to find itself there.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from rondo import known_torch

SOURCE = pathlib.Path(known_torch.__file__).parents[1]
STUBS = {
    "torch/__init__.py": "__version__ = '{version}'",
    "torch/distributed/__init__.py": """
class Backend:
    _plugins = ()
    register_backend = lambda name, create, **named: None
is_available = lambda: True
class ProcessGroup: pass
""",
    "vllm/__init__.py": "",
    "vllm/platforms.py": """
class Platform:
    is_cpu = lambda self: True
current_platform = Platform()
""",
    "sglang/srt/plugins/hook_registry.py": "HookRegistry = HookType = None",
    "torchft/process_group.py": "class ProcessGroupWrapper: pass",
}  # fmt: skip
OLD = (
    "rondo: torch 2.11.0+cpu is installed; Rondo needs 2.12 or newer (tested are 2.12 to 2.15): "
    "pip install -U torch"
)
NEW = "; torch 2.99.0.dev1: tested are 2.12 to 2.15"


def run_with(tmp_path, version, code):
    """The output of a program that has a torch of this version and nothing else of torch's."""
    for name, text in STUBS.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.format(version=version))
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{SOURCE}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize(
    "code",
    [
        "import rondo.torch",
        "import rondo.torchft",
        "from rondo.autoload import create; create(None)",
    ],
)
def test_the_error_names_the_release_of_torch(code, tmp_path):
    done = run_with(tmp_path, "2.11.0+cpu", code)
    assert done.returncode == 1 and done.stdout.endswith(f"ImportError: {OLD}\n"), done.stdout
    done = run_with(tmp_path, "2.99.0.dev1", code)
    assert done.returncode == 1, done.stdout
    assert re.search(
        rf"^ImportError: rondo: cannot import .*{re.escape(NEW)}\n\Z", done.stdout, re.M
    )


@pytest.mark.parametrize(
    ("code", "keeps"),
    [
        ("from rondo.vllm import register; register()", "vLLM keeps its own communicator"),
        ("from rondo.sglang import register; register()", "SGLang keeps its own communication"),
    ],
)
def test_a_plugin_reports_it_in_one_line_and_the_program_goes_on(code, keeps, tmp_path):
    done = run_with(tmp_path, "2.11.0+cpu", code)
    assert done.returncode == 0
    assert done.stdout == f"rondo: {keeps}: {OLD.removeprefix('rondo: ')}\n"
    done = run_with(tmp_path, "2.99.0.dev1", code)
    assert done.returncode == 0
    assert re.fullmatch(
        rf"rondo: {keeps}: (cannot import|No module) .*{re.escape(NEW)}\n", done.stdout
    )


def test_a_script_that_names_gloo_runs_on_it_and_one_line_has_the_reason(tmp_path):
    code = (
        "import os; os.environ['RONDO_TORCH_RUN'] = '1'; from rondo.autoload import autoload; "
        "autoload(); print('goes on')"
    )
    done = run_with(tmp_path, "2.11.0+cpu", code)
    assert done.stdout == f"rondo: PyTorch runs without Rondo: ImportError({OLD!r})\ngoes on\n"
    done = run_with(tmp_path, "2.99.0.dev1", code)
    assert NEW in done.stdout and done.stdout.endswith("goes on\n")


@pytest.mark.parametrize("version", ["2.15.9", "2.12.0a0+git1", "nightly"])
def test_an_error_with_a_tested_torch_stays_as_it_is(version, tmp_path):
    done = run_with(tmp_path, version, "import rondo.torch")
    assert "ImportError: cannot import" in done.stdout and "tested are" not in done.stdout, (
        done.stdout
    )


def test_an_attribute_that_is_missing_is_named_with_the_release(tmp_path):
    code = "from rondo.known_torch import explained\nwith explained(): import torch; torch.private"
    done = run_with(tmp_path, "2.99.0.dev1", code)
    (line,) = [line for line in done.stdout.split("\n") if line.startswith("AttributeError: rondo")]
    assert "'private'" in line and line.endswith(NEW)


def test_rondos_own_errors_stay_as_they_are(tmp_path):
    code = (
        "from rondo.known_torch import explained\n"
        "with explained(): raise ImportError('rondo: cannot load the library')"
    )
    done = run_with(tmp_path, "2.99.0.dev1", code)
    assert done.stdout.endswith("ImportError: rondo: cannot load the library\n")


def test_a_torchft_that_lacks_a_module_is_named(tmp_path):
    (tmp_path / "torchft.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", "import rondo.torchft"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{SOURCE}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: rondo: No module named 'torchft.process_group'")
    assert last.endswith("; rondo.torchft needs torchft 0.2 or newer: pip install -U torchft")


def test_the_tested_releases_are_those_that_the_stages_install():
    text = pathlib.Path(__file__).with_name("libraries.sh").read_text()
    releases = re.search(r"^TORCH_VERSIONS=\((.*)\)", text, re.MULTILINE)[1].split()
    ends = [tuple(map(int, release.split(".")[:2])) for release in releases]
    assert (min(ends), max(ends)) == (known_torch.OLDEST, known_torch.NEWEST)
