# SPDX-License-Identifier: Apache-2.0
"""torch's own tests of torch.distributed, DistributedTest of its wheel, under the name gloo.

  python -m rondo.torch.run tests/torch/torch_suite.py             all of them
  python -m rondo.torch.run tests/torch/torch_suite.py barrier     tests whose names have this
  python -m rondo.torch.run tests/torch/torch_suite.py --part 2/4  every fourth one
  python tests/torch/torch_suite.py                                torch's gloo, to compare

Each test has three ranks, which are forked; torch spawns them, which takes ten times as long.
Needs the package expecttest. Ends with one line of counts, and fails where a test has failed.
"""

import argparse
import os
import sys
import tempfile
import unittest

RANKS = 3
VARIABLES = {"BACKEND": "gloo", "WORLD_SIZE": str(RANKS), "OMP_NUM_THREADS": "1"}


def suite_class():
    """torch reads the variables when it is imported."""
    import torch
    from torch.testing._internal.distributed import distributed_test

    torch.set_num_threads(1)  # forked children may not use a pool of their parent

    class DistributedSuite(
        distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase
    ):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return DistributedSuite


class Counts(unittest.TextTestResult):
    """One line per test, with its result."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*")
    parser.add_argument("--part", default="1/1", metavar="K/N")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    os.environ.update(VARIABLES)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(TEMP_DIR=folder, INIT_METHOD="env://")
        cases = suite_class()
        names = unittest.TestLoader().getTestCaseNames(cases)
        if options.names:
            names = [name for name in names if any(wanted in name for wanted in options.names)]
        names = names[part - 1 :: parts]
        runner = unittest.TextTestRunner(verbosity=2, resultclass=Counts, stream=sys.stdout)
        result = runner.run(unittest.TestSuite(map(cases, names)))
    failed = len(result.failures) + len(result.errors)
    print(f"{result.passed} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(failed > 0 or not names)


if __name__ == "__main__":
    main()
