// RankReport: what a rank is doing, as others see it: a copy of the words that it shows its host,
// in one form for ranks of this host and of others.
//
// HostReport: the message by which a rank that has waited for long asks a rank of another host what
// is going on there, and the answer: the reports of the sender's whole host, and how many slots the
// two ranks have exchanged. decode_host_report() believes nothing: it returns nothing for bytes
// that no rank can have sent. Cost: some loads a rank; only in waits that last.
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
  std::uint32_t waits = 0;          // that it has begun
  std::uint32_t checks = 0;         // in which its condition was still unmet
  std::uint32_t quiet = 0;          // see ProgressLine
  std::uint64_t sequence = 0;       // newest announced call
  std::uint64_t finished = 0;       // newest completed one
  std::uint64_t step = 0;           // publications
  std::uint64_t wait_sequence = 0;  // newest announced call when it began to wait
  CallRecord waits_in;              // the call in which it waits
  std::uint64_t shown = 0;          // the announced call that follows; 0: none
  CallRecord announced;
  std::uint32_t history = 0;  // of all calls up to that one
  enum Condition : std::uint32_t { kRunning, kStopped, kEnded };
  std::uint32_t condition = kRunning;

  bool waits_now() const;  // in a call that it has not finished
};

// Of rank `rank`, whose words these are. Call `shown` is that of number `wanted`, or the newest one
// if that is older or `wanted` is 0; none where the ring does not hold it any more.
RankReport report_of(const PeerPort& words, int rank, std::uint64_t wanted = 0);

// "in call 3, AllReduce(...), step 7, waits for rank 1", or "not entered call 4", where `newest` is
// the newest call that some rank has entered; and ", stopped".
std::string describe(const RankReport& report, std::uint64_t newest);

struct HostReport {
  bool is_question = false;
  bool is_last = true;         // of the messages that make up one report
  std::uint64_t number = 0;    // of the sender's reports; a report's messages have the same
  std::uint64_t sequence = 0;  // newest call of the sender: an answer should show that one
  RemoteLinks::Traffic traffic{};
  std::vector<RankReport> ranks;

  static constexpr std::size_t kMaxRanks = 32;  // in one message
};

std::vector<std::byte> encode_host_report(const HostReport& report);
// Ranks of the reports lie in 0..ranks-1.
std::optional<HostReport> decode_host_report(std::span<const std::byte> message, int ranks);

// Whether nothing can be on its way between two ranks, as each of them counts. What waits for a
// connection to open, or for its peer to want anything on that lane, is on its way.
bool is_quiet(const RemoteLinks::Traffic& here, const RemoteLinks::Traffic& there);

}  // namespace rondo
