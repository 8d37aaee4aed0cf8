// SPDX-License-Identifier: Apache-2.0
// run_other_program(): runs a program (gnuplot, Graphviz, ssh): text goes in, its output comes out.
//
// Guarantees: it is killed at the deadline, and with this process; output is bounded (256 MiB).
// Cost: a process.
//
//   RONDO_TRY(ProgramResult result, run_other_program({.argv = {"gnuplot", "-"}}, script));
//   if (result.end == ProgramResult::kDone) use(result.output);
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace rondo {

struct OtherProgram {
  std::vector<const char*> argv;  // argv[0] is found by PATH
  double seconds = 60;            // until it is killed
};

struct ProgramResult {
  enum End { kDone, kMissing, kLate, kFailed };  // kDone: with status 0, and output
  End end = kFailed;
  std::string output;
  std::string errors;  // what it has printed to stderr, printable
};

// An error only if no process or pipe can be made.
Result<ProgramResult> run_other_program(const OtherProgram& program, const std::string& text);

}  // namespace rondo
