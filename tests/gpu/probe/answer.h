// SPDX-License-Identifier: Apache-2.0
// Output of a probe: lines of JSON on standard output, each written at once, so that a probe that
// hangs or dies later loses none of them. The parent (runner.h) reads them.
//
// Needs no CUDA and no JSON library, so that kernels compile quickly. Cost: one system call a line.
#pragma once

#include <string>

namespace probe {

// A measured value; if a name is used several times, the last value counts.
void put(const std::string& name, double value, const char* unit = "");
void put(const std::string& name, const std::string& value);
// The answer in one sentence.
void answer(const std::string& sentence);
// Checks an assumption of the table in questions.cc. If checked twice, it must hold both times.
void check(const char* assumption, bool holds, const std::string& seen);

[[noreturn]] void give_up(const std::string& why);      // the probe has failed
[[noreturn]] void unsupported(const std::string& why);  // this machine does not support it

inline constexpr int kGaveUp = 3, kUnsupported = 4;  // exit statuses of a probe

std::string print(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace probe
