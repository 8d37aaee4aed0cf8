// SPDX-License-Identifier: Apache-2.0
// run_drawing_program(): runs a program that draws: text goes in, a picture comes out.
//
// Guarantees: the program reads its text from memory and writes to pipes; no shell, no file. It is
// killed at the deadline, and if this process ends. A picture has at most 256 MiB.
//
//   RONDO_TRY(const Drawing drawing, run_drawing_program({.argv = {"dot", "-Tsvg"}}, graph));
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace rondo {

struct DrawingProgram {
  std::vector<const char*> argv;  // argv[0] is found by PATH
  double seconds = 60;            // until it is killed
};

struct Drawing {
  enum class End { kDrawn, kMissing, kLate, kFailed };
  End end = End::kFailed;
  std::string picture;
  std::string errors;  // what it has printed to stderr, printable
};

// An error only if no process or pipe can be made.
Result<Drawing> run_drawing_program(const DrawingProgram& program, const std::string& text);

}  // namespace rondo
