// How `rondo bench` ends: nccl-tests' numbers, so that scripts need not change.
#pragma once

namespace rondo::bench {

enum ExitCode : int {
  kOk = 0,
  kInternal = 1,
  kLibraryError = 3,      // a call of the library failed
  kTimedOut = 4,          // -T
  kNotImplemented = 5,    // asked for what there is none of here (CUDA graphs on host memory)
  kInvalidUse = 6,        // understood, but not possible: too little memory, wrong number of ranks
  kWrongResult = 7,       // wrong data, below NCCL_TESTS_MIN_BW, slower than the baseline
  kBadCommandLine = 255,  // not understood
};

}  // namespace rondo::bench
