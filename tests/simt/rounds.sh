# SPDX-License-Identifier: Apache-2.0
# Parts of the stages simt and simt_weak (tests/run.sh): the same tests in other modes of the
# emulated GPU. Both cores work all the time: tests/run_tests.py divides tests among processes, and
# rounds with seeds run side by side.
#
# What found a planted bug is in the stage simt: the kernels alone, for many seeds. Of the product
# it has one call for each protocol in weak memory. There a test takes ten seconds: an emulated
# kernel clears new memory for lines, store by store.

# As many seeds as fit in RONDO_SIMT_SECONDS (20), different in every run: the kernels alone in
# rounds of their tests, and beside them the product, where each seed runs one part of the tests, so
# that the last one is soon over.
many_seeds() {
  local seconds=${RONDO_SIMT_SECONDS:-20} bin=build/simt/bin rounds started=() one
  local quick='*Meet*_devices:Graphs.*'
  rounds='DirectKernels.ReduceEvery*:DirectKernels.CopyAny*:ConnectedKernels.AllReduceFor*'
  rounds+=':ConnectedKernels.CopyBytes*'
  for one in 1 2; do
    RONDO_SIMT_PARTS=8 tests/simt/seeds.sh "$seconds" s $bin/gpu_tests --gtest_filter="$quick" &
    started+=($!)
  done
  RONDO_SIMT_SECONDS=$((seconds / 4)) $bin/simt_tests --gtest_filter="$rounds" --gtest_print_time=0
  for one in "${started[@]}"; do
    wait "$one"
  done
}

# Rings, trees and direct kernels over several devices in weak memory. PATTERN: of tests.
in_weak_memory() {
  local settings='(ring_simple|tree_ll|tree_ll128|allreduce_.*)_devices'
  RONDO_SIMT=mode=weak,lines=whole \
    run_tests simt --batch 1 -R "^Gpu\\.Settings/Connected\\.($1).*/$settings\$"
}

# Everything once on OS threads.
on_threads() { RONDO_SIMT=mode=parallel run_tests simt -R '^Gpu\.'; }
