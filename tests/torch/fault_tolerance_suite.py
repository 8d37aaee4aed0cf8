# SPDX-License-Identifier: Apache-2.0
"""torch's own tests of reconfigure under the name gloo, from a checkout of torch's sources: its
wheel does not have them. Needs torch 2.15 or newer and the package expecttest.

  TORCH_SOURCE=pytorch python -m rondo.torch.run tests/torch/fault_tolerance_suite.py
  TORCH_SOURCE=pytorch python tests/torch/fault_tolerance_suite.py      torch's gloo, to compare

Each test has three processes. Words after the command choose the tests whose names have one of
them. Ends with one line of counts, and fails where a test has failed.
"""

import importlib
import os
import pathlib
import sys
import unittest

from torch_suite import Counts

FOLDER, MODULE, CASES = "test/distributed", "test_c10d_fault_tolerance", "GlooFaultToleranceTest"


def cases():
    """The class of tests for gloo. The processes of a test import its module by its name."""
    source = os.environ.get("TORCH_SOURCE") or sys.exit(
        "TORCH_SOURCE is not set; give it the folder of a checkout of torch's sources"
    )
    folder = pathlib.Path(source, FOLDER).resolve()
    if not (folder / f"{MODULE}.py").exists():
        sys.exit(f"TORCH_SOURCE={source} has no {FOLDER}/{MODULE}.py; torch has it from 2.15 on")
    sys.path.insert(0, str(folder))
    return getattr(importlib.import_module(MODULE), CASES)


def main():
    wanted, tests = sys.argv[1:] or [""], cases()
    names = unittest.TestLoader().getTestCaseNames(tests)
    names = [name for name in names if any(word in name for word in wanted)]
    runner = unittest.TextTestRunner(verbosity=2, resultclass=Counts, stream=sys.stdout)
    result = runner.run(unittest.TestSuite(map(tests, names)))
    failed = len(result.failures) + len(result.errors)
    print(f"{result.passed} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(failed > 0 or not names)


if __name__ == "__main__":
    main()
