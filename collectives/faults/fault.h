// SPDX-License-Identifier: Apache-2.0
// Fault: why a communicator stopped working, as one sentence and as fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

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

  // Found by `rank` outside of its calls.
  static Fault found_by(int rank, StatusCode status, int culprit, std::string text);
  Error error() const { return Error{status, text}; }
};

// A call that does not match a peer's, as text and as records.
struct Mismatch {
  int peer = -1;
  CallRecord own, other;
  std::string text;
};

// The first byte of a control message.
inline constexpr std::uint8_t kFaultMessage = 1;
inline constexpr std::uint8_t kReportMessage = 2;    // collectives/faults/rank_report.h
inline constexpr std::uint8_t kStandingMessage = 3;  // collectives/faults/status_tree.h
inline constexpr std::uint8_t kStandingAnswer = 4;   // its acknowledgement
inline constexpr std::uint8_t kMessagesNote = 5;     // collectives/faults/message_notes.h

// A fault as bytes for the ranks of other hosts.
std::vector<std::byte> encode_fault(const Fault& fault);

// Ranks in the result are in -1..ranks-1 for any bytes. A message that cannot be read becomes a
// fault that says so.
Fault decode_fault(std::span<const std::byte> message, int ranks);

}  // namespace rondo
