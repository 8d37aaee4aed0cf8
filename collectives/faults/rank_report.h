// SPDX-License-Identifier: Apache-2.0
// RankReport: what a rank is doing, as other ranks see it: a copy of the words that it publishes to
// its host, in one form for ranks of this host and of others.
//
// HostReport: the message with which a rank that has waited long asks a rank of another host for
// its state, and the answer. It holds the reports of all ranks of the sender's host and the number
// of slots that the two ranks exchanged. decode_host_report() validates its input: it returns
// nothing for bytes that no rank can have sent. Cost: a few loads per rank, only in long waits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "transport/connection.h"
#include "transport/net/remote_links.h"

namespace rondo {

struct RankReport {
  std::int32_t rank = -1;
  std::int32_t waiting_for = -1;    // rank, or -1
  std::int32_t state = kOutside;    // see ProgressLine
  std::uint32_t waits = 0;          // number of waits begun
  std::uint32_t checks = 0;         // number of checks that found its condition still false
  std::uint32_t quiet = 0;          // see ProgressLine
  std::uint64_t sequence = 0;       // newest announced call
  std::uint64_t finished = 0;       // newest completed call
  std::uint64_t step = 0;           // publications
  std::uint64_t wait_sequence = 0;  // newest call that it had entered when it began to wait
  CallRecord waits_in;              // the call in which it waits
  std::uint64_t shown = 0;          // number of the call in `announced`; 0: none
  CallRecord announced;
  std::uint32_t history = 0;  // hash of all calls up to that one
  enum Condition : std::uint32_t { kRunning, kStopped, kEnded };
  std::uint32_t condition = kRunning;

  bool waits_now() const;  // waits in a call that it has not finished
  // The newest call that it is known to have entered. A rank may wait for room for its
  // announcement, or for staging memory, before it announces its call.
  std::uint64_t entered() const;
};

// Report of rank `rank`, which publishes `words`. `shown` is call `wanted`, or the newest call if
// that is older or `wanted` is 0; no call if the ring no longer holds it.
RankReport report_of(const PeerPort& words, int rank, std::uint64_t wanted = 0);

// "in call 3, AllReduce(...), step 7, waits for rank 1", or "not entered call 4" if `newest`, the
// newest call that any rank has entered, is 4; ", stopped" is appended.
std::string describe(const RankReport& report, std::uint64_t newest);

struct HostReport {
  bool is_question = false;
  bool is_last = true;         // last message of a report
  std::uint64_t number = 0;    // number of the report; all messages of a report have the same
  std::uint64_t sequence = 0;  // newest call of the sender; the answer should show that call
  RemoteLinks::Traffic traffic{};
  std::vector<RankReport> ranks;

  static constexpr std::size_t kMaxRanks = 32;  // in one message
};

std::vector<std::byte> encode_host_report(const HostReport& report);
// All ranks in the result are in 0..ranks-1.
std::optional<HostReport> decode_host_report(std::span<const std::byte> message, int ranks);

// True if both ranks' counts show that nothing is in flight between them. Data that waits for a
// connection to open, or for the peer to want data on that lane, counts as in flight.
bool is_quiet(const RemoteLinks::Traffic& here, const RemoteLinks::Traffic& there);

}  // namespace rondo
