// SPDX-License-Identifier: Apache-2.0
// The table of probes, and of the assumptions of Rondo's code about a device.
#pragma once

namespace probe {

struct Question {
  const char* name;
  int seconds;        // after which the probe is killed
  bool needs_device;  // runs only if there is a device
  bool hidden;        // runs only by name: for tests of the probe itself
  const char* asks;
  const char* relied_on_by;  // code for which the answer matters
  void (*ask)();
};

// Judged by the probe `question`.
struct Assumption {
  const char* question;
  const char* name;
  const char* sentence;
  const char* relied_on_by;
};

const Question* begin(const struct AllQuestions&);
const Question* end(const struct AllQuestions&);
const Assumption* begin(const struct AllAssumptions&);
const Assumption* end(const struct AllAssumptions&);
inline constexpr struct AllQuestions {
} kQuestions;
inline constexpr struct AllAssumptions { } kAssumptions; }  // namespace probe
