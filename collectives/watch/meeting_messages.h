// SPDX-License-Identifier: Apache-2.0
// What processes say where they meet (HostMeeting), as JSON: MeetingRequest, what one reports and
// asks for, and MeetingAnswer, what it then learns.
//
// Guarantees of parse(): an error, or values in range and at most kMaxProcesses processes; parse()
// of a text() gives the same. Processes that cannot be read are left out of an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "collectives/watch/watched_process.h"

namespace rondo::watch {

struct MeetingRequest {
  // Of the newest answer that it got: the process that gave it, and its newest number. It wants
  // what came later.
  std::uint64_t reported_by = 0, since = 0;
  std::set<std::uint64_t> communicators;  // of which it lacks ranks
  WatchedProcess own;

  std::string text() const;
  static Result<MeetingRequest> parse(std::string_view text);
};

struct MeetingAnswer {
  static constexpr std::size_t kMaxProcesses = 16384;

  std::uint64_t reported_by = 0, newest = 0;
  std::vector<WatchedProcess> processes;

  std::string text() const;
  static Result<MeetingAnswer> parse(std::string_view text);
};

}  // namespace rondo::watch
