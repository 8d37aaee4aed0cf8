// The table of probes, and of what Rondo's code takes for granted about a device.
#pragma once

namespace probe {

struct Question {
  const char* name;
  int seconds;        // after which it is killed
  bool needs_device;  // asked only where there is one
  bool hidden;        // only by name: for tests of the probe itself
  const char* asks;
  const char* relied_on_by;  // whose code the answer matters to
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
