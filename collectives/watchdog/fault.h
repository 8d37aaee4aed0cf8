// Fault: why a communicator stopped working, in one sentence and in fields.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace rondo {

struct Fault {
  StatusCode status = StatusCode::kSuccess;
  int rank = -1;               // who found it
  int culprit = -1;            // whom it blames, or -1
  std::uint64_t sequence = 0;  // number of the call in which it was found, from 1
  CallRecord own;
  CallRecord other;  // the culprit's call, where it made a different one
  std::string text;

  Error error() const { return Error{status, text}; }
};

// A call that does not match a peer's, in words, and whose.
struct Mismatch {
  int peer = -1;
  CallRecord own, other;
  std::string text;
};

}  // namespace rondo
