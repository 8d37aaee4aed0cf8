// Encodes a fault as bytes for the ranks of other hosts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/watchdog/fault.h"

namespace rondo {

// The first byte of a control message.
inline constexpr std::uint8_t kFaultMessage = 1;
inline constexpr std::uint8_t kReportMessage = 2;    // collectives/watchdog/rank_report.h
inline constexpr std::uint8_t kStandingMessage = 3;  // collectives/watchdog/status_tree.h
inline constexpr std::uint8_t kStandingAnswer = 4;   // its acknowledgement
inline constexpr std::uint8_t kMessagesNote = 5;     // collectives/watchdog/message_notes.h

std::vector<std::byte> encode_fault(const Fault& fault);

// Ranks in the result are in -1..ranks-1 for any bytes. A message that cannot be read becomes a
// fault that says so.
Fault decode_fault(std::span<const std::byte> message, int ranks);

}  // namespace rondo
