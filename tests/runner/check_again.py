#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks how tests/run_tests.py and tests/run_pytest.py run failed tests again.

Each case is a build folder for CTest with one script, or with one program that behaves as
GoogleTest's do. What it does in its Nth run stands in a list, the last item for all later runs.
"""
import os
import subprocess
import sys
import tempfile
import time
import unittest

TESTS = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
sys.path.insert(0, TESTS)
import flaky  # noqa: E402

DEEDS = {"pass": "", "fail": "seed(); sys.exit(1)", "crash": "os.abort()",
         "hang": "time.sleep(600)", "skip": "sys.exit(77)",
         "race": "print('WARNING: ThreadSanitizer: race'); sys.exit(66)"}
COUNTED = """#!/usr/bin/env python3
import os, sys, time
def seed(): print('reproduce with RONDO_TEST_SEED=%s' % (4711 + run), flush=True)
with open({count!r}, 'a') as file: file.write('x')
run = os.path.getsize({count!r}) - 1
deeds = {deeds!r}
"""
SCRIPT = COUNTED + "exec(deeds[min(run, len(deeds) - 1)])\n"
GOOGLE_TEST = COUNTED + """
deed = deeds[min(run, len(deeds) - 1)]
print('[ RUN      ] A.B', flush=True)
if 'seed' in deed: seed()
elif deed: exec(deed)
print('[  %s ] A.B (1 ms)' % ('FAILED ' if deed else '     OK'))
sys.exit(1 if deed else 0)
"""


class Again(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.flaky, self.build = self.path("kept/flaky.txt"), self.folder.name

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def program(self, source, deeds):
        name = self.path("program")
        with open(name, "w", encoding="utf-8") as file:
            file.write(source.format(count=self.path("runs"), deeds=[DEEDS[d] for d in deeds]))
        os.chmod(name, 0o755)
        return name

    def run_test(self, source, deeds, options=None):
        """Runs a test with these deeds. Returns the status and the last lines."""
        of_google = " \"--gtest_filter=A.B\"" if source is GOOGLE_TEST else ""
        with open(self.path("CTestTestfile.cmake"), "w", encoding="utf-8") as file:
            file.write(f'add_test(One "{self.program(source, deeds)}"{of_google})\n'
                       "set_tests_properties(One PROPERTIES TIMEOUT 10 SKIP_RETURN_CODE 77)\n")
        done = subprocess.run(
            [sys.executable, f"{TESTS}/run_tests.py", self.build]
            + (["--flaky", self.flaky] if options is None else options),
            env=os.environ | {"RONDO_TEST_COUNTS": self.path("counts")}, cwd=TESTS, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout.rstrip().split("\n")

    def runs(self):
        return os.path.getsize(self.path("runs"))

    def expect_failure(self, source, deeds, runs):
        status, lines = self.run_test(source, deeds)
        self.assertEqual((status, lines[-2:]),
                         (1, ["failed: One", "0 passed, 1 failed, 0 skipped"]))
        self.assertEqual((self.runs(), flaky.rows(self.flaky)), (runs, []))

    def expect_flaky(self, source, deeds, seed):
        status, lines = self.run_test(source, deeds)
        self.assertEqual((status, lines[-3:]),
                         (0, ["flaky: One", "1 passed, 0 failed, 0 skipped", "1 flaky"]))
        self.assertEqual(self.runs(), 4)
        self.assertEqual([row[2:] for row in flaky.rows(self.flaky)], [[seed, "One"]])
        with open(self.path("counts"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "1 0 0\n")

    def test_a_test_that_always_fails_fails_after_two_runs(self):
        self.expect_failure(SCRIPT, ["fail"], 2)

    def test_a_test_of_google_that_always_fails_fails_after_two_runs(self):
        self.expect_failure(GOOGLE_TEST, ["fail"], 2)

    def test_a_test_that_fails_once_is_flaky_and_its_seed_is_kept(self):
        self.expect_flaky(SCRIPT, ["fail", "pass"], "RONDO_TEST_SEED=4711")

    def test_a_test_of_google_that_fails_once_is_flaky_and_its_seed_is_kept(self):
        self.expect_flaky(GOOGLE_TEST, ["fail", "pass"], "RONDO_TEST_SEED=4711")

    def test_one_failure_of_three_is_enough(self):
        self.expect_failure(SCRIPT, ["fail", "pass", "pass", "fail"], 4)

    def test_a_crash_is_a_failure(self):
        self.expect_failure(GOOGLE_TEST, ["crash"], 2)

    def test_a_crash_in_the_last_run_is_a_failure(self):
        self.expect_failure(GOOGLE_TEST, ["fail", "pass", "pass", "crash"], 4)

    def test_a_test_that_exceeds_its_time_again_fails(self):
        self.expect_failure(SCRIPT, ["fail", "hang"], 2)

    def test_a_test_that_is_skipped_has_not_passed_again(self):
        self.expect_failure(SCRIPT, ["fail", "skip"], 2)

    def test_a_report_of_a_sanitizer_is_never_luck(self):
        self.expect_failure(SCRIPT, ["race", "pass"], 1)

    def test_without_the_option_nothing_runs_again(self):
        status, lines = self.run_test(SCRIPT, ["fail", "pass"], [])
        self.assertEqual((status, lines[-1], self.runs()), (1, "0 passed, 1 failed, 0 skipped", 1))

    def test_in_starvation_nothing_runs_again(self):
        status, lines = self.run_test(SCRIPT, ["fail", "pass"], ["--repeat", "2"])
        self.assertEqual((status, lines[-1], self.runs()), (1, "1 of 2 runs failed", 2))

    def test_the_last_lines_name_what_was_flaky_twice(self):
        for output in ("", "RONDO_SIMT_SEED=3"):
            flaky.keep("One", output, self.flaky)
        flaky.keep("Two", "", self.flaky)
        self.assertEqual(flaky.lines_since(time.time() - 60, self.flaky),
                         ["flaky: One", "flaky: One (RONDO_SIMT_SEED=3)", "flaky: Two",
                          f"mend first, flaky 2 times ({self.flaky}): One", "2 flaky"])
        self.assertEqual(flaky.lines_since(time.time() + 60, self.flaky), [])

    def test_pytest(self):
        """A program in place of Python prints what pytest would."""
        failed = "print('FAILED x.py::test - no\\n1 failed, 2 passed in 1s'); sys.exit(1)"
        passed = "print('1 passed in 1s')"
        for deeds, status, counts in (([failed, passed], 0, "3 0 0"), ([failed], 1, "2 1 0")):
            name = self.path("program")
            with open(name, "w", encoding="utf-8") as file:
                file.write(SCRIPT.format(count=self.path(f"runs{status}"), deeds=deeds))
            os.chmod(name, 0o755)
            path = self.path(f"counts{status}")
            done = subprocess.run(
                [sys.executable, f"{TESTS}/run_pytest.py", name, "--flaky", self.flaky, "x.py"],
                env=os.environ | {"RONDO_TEST_COUNTS": path}, cwd=TESTS,
                stdout=subprocess.DEVNULL, check=False)
            with open(path, encoding="utf-8") as file:
                self.assertEqual((done.returncode, file.read()), (status, counts + "\n"))
        self.assertEqual([row[3] for row in flaky.rows(self.flaky)], ["x.py::test"])


if __name__ == "__main__":
    unittest.main()
