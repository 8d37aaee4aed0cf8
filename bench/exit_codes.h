// Exit codes of `rondo bench`: nccl-tests' numbers, so that scripts work unchanged.
#pragma once

namespace rondo::bench {

enum ExitCode : int {
  kOk = 0,
  kInternal = 1,
  kLibraryError = 3,      // a call of the library failed
  kTimedOut = 4,          // -T
  kNotImplemented = 5,    // not available here (CUDA graphs on host memory)
  kInvalidUse = 6,        // valid but impossible: too little memory, wrong number of ranks
  kWrongResult = 7,       // wrong data, below NCCL_TESTS_MIN_BW, slower than the baseline
  kBadCommandLine = 255,  // not a valid command line
};

}  // namespace rondo::bench
