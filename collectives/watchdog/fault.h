// Fault: why a communicator stopped working, as one sentence and as fields.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace rondo {

struct Fault {
  StatusCode status = StatusCode::kSuccess;
  int rank = -1;               // the rank that found it
  int culprit = -1;            // the rank at fault, or -1
  std::uint64_t sequence = 0;  // number of the call in which it was found, from 1
  CallRecord own;
  CallRecord other;  // the culprit's call, if it is a different one
  std::string text;

  Error error() const { return Error{status, text}; }
};

// A call that does not match a peer's, as text and as records.
struct Mismatch {
  int peer = -1;
  CallRecord own, other;
  std::string text;
};

}  // namespace rondo
