// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/machine/violation.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace rondo::simt {
namespace {

struct Collected {
  Violation kind;
  std::string text;
};

struct Log {
  std::mutex mutex;
  int expecting = 0;
  std::vector<Collected> collected;
  std::string reproducer = "seed unknown";
};

Log& log() {
  static Log* const only = new Log;  // outlives every thread
  return *only;
}

}  // namespace

const char* name(Violation kind) {
  switch (kind) {
    case Violation::kBadAccess:
      return "bad access";
    case Violation::kUseAfterFree:
      return "use after free";
    case Violation::kBarrier:
      return "broken barrier";
    case Violation::kForeignSpin:
      return "spin on another process";
    case Violation::kOpenRead:
      return "overwritten while being read";
    case Violation::kLaneRace:
      return "unordered shared memory";
    case Violation::kDomain:
      return "outside the remote domain";
    case Violation::kProxy:
      return "missing proxy fence";
    case Violation::kContext:
      return "no context";
    case Violation::kLoading:
      return "loading beside a spinning kernel";
    case Violation::kRecords:
      return "unordered records";
    case Violation::kThread:
      return "a call of the wrong thread";
  }
  return "unknown";
}

void report(Violation kind, std::string text) {
  Log& all = log();
  const std::lock_guard lock(all.mutex);
  if (all.expecting > 0) {
    all.collected.push_back({kind, std::move(text)});
    return;
  }
  std::fprintf(stderr, "emulated GPU: %s: %s\n  repeat with: %s\n", name(kind), text.c_str(),
               all.reproducer.c_str());
  std::abort();
}

void set_reproducer(std::string text) {
  const std::lock_guard lock(log().mutex);
  log().reproducer = std::move(text);
}

std::string reproducer() {
  const std::lock_guard lock(log().mutex);
  return log().reproducer;
}

ExpectViolations::ExpectViolations() {
  const std::lock_guard lock(log().mutex);
  ++log().expecting;
  log().collected.clear();
}

ExpectViolations::~ExpectViolations() {
  const std::lock_guard lock(log().mutex);
  --log().expecting;
}

bool ExpectViolations::saw(Violation kind) const {
  const std::lock_guard lock(log().mutex);
  for (const Collected& one : log().collected)
    if (one.kind == kind) return true;
  return false;
}

std::vector<std::string> ExpectViolations::texts() const {
  const std::lock_guard lock(log().mutex);
  std::vector<std::string> all;
  for (const Collected& one : log().collected)
    all.push_back(std::string(name(one.kind)) + ": " + one.text);
  return all;
}

}  // namespace rondo::simt
