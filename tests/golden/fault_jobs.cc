// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/fault_jobs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <regex>

#include "tests/golden/fault_kinds.h"
#include "tests/golden/golden.h"
#include "tests/support/nccl_rank.h"

namespace rondo::test {
namespace {

// RONDO_INIT_TIMEOUT, and RONDO_TIMEOUT if the deadline must not end the call. Shorter than the
// test's own wait, so that hanging ranks report where they hang before the test kills them.
constexpr double kLongSeconds = 120;
enum Stage { kMade = 1, kInCall, kCalled };  // a rank's progress; 0: it makes a communicator
constexpr double kWordSeconds = 5;  // time for a fault to be reported if no call waits for it
constexpr int kRoundsToWrite = 6;   // to see all texts that depend on timing
// Only a starved machine gives a text once; a text of the program appears every time.
constexpr int kAttempts = 3;

// True if all ranks have their outcomes, except one that needs none.
bool all_reported(const Board& board, const FaultKind& kind) {
  for (int rank = 0; rank < kFaultRanks; ++rank)
    if (board.seats[rank].reported.load() == 0 && !(kind.last_leaves && rank == kFaultRanks - 1))
      return false;
  return true;
}

// A call can return before the report of its fault arrives from another host. The communicator then
// reports it later, on at least one rank.
ncclResult_t reported_after_call(const FaultRank& self, double seconds) {
  ncclResult_t seen = ncclSuccess;
  wait_until(
      [&] {
        seen = self.settled(ncclSuccess);
        const BoardSeat* const seats = self.seat.board.seats;
        return seen != ncclSuccess || std::any_of(seats, seats + kFaultRanks, [](const auto& seat) {
                 return seat.reported.load() != 0;
               });
      },
      seconds);
  return seen;
}

// The text as in the golden file. Ranks that do the same are treated as one, because timing decides
// which of them reports. The state of ranks on other hosts is what they reported last.
std::string block_of(ncclResult_t result, const std::string& message, const FaultKind& kind,
                     bool one_host) {
  std::string text = fmt::format("{}\n{}", ncclGetErrorString(result), masked(message));
  text = std::regex_replace(text, std::regex(R"(\b(step|channel) \d+)"), "$1 <n>");
  if (kind.others_alike) text = std::regex_replace(text, std::regex(R"(\brank [01]\b)"), "rank A");
  // How a connection's end is detected first: a reset, an end of stream, a refused attempt.
  text = std::regex_replace(text, std::regex(R"((waits for it): [^\n]*)"), "$1: <network error>");
  if (!one_host)
    text = std::regex_replace(text, std::regex(R"((\n  rank \w+ \(pid <pid> on <host>\)): [^\n]*)"),
                              "$1: <what is known>");
  while (text.back() == '\n') text.pop_back();
  return text;
}

void run_rank(NcclRank& seat, const FaultKind& kind, double word_seconds) {
  FaultRank self(seat);
  ncclResult_t result = ncclCommInitRank(&self.comm, kFaultRanks, seat.id(), seat.rank);
  seat.mark(kMade);
  seat.board.meet();  // no rank must wait long in this call
  if (result == ncclSuccess) result = self.sum(1000);
  seat.mark(kInCall);
  seat.board.meet();
  if (result == ncclSuccess) result = kind.body(self);
  seat.mark(kCalled);
  if (result == ncclSuccess && self.comm != nullptr)
    result = reported_after_call(self, word_seconds);
  seat.report(result == ncclSuccess
                  ? ok_status()
                  : Status(Error{static_cast<StatusCode>(result), ncclGetLastError(self.comm)}));
  // A rank that leaves now would cause another fault on the others.
  wait_until([&] { return all_reported(seat.board, kind); });
  if (self.comm != nullptr) ncclCommAbort(self.comm);
}

// The faults that ranks reported. Every limit is `factor` times as long as usual.
std::vector<std::string> outcomes(const FaultLayout& of, const FaultKind& kind, double factor) {
  Job job =
      of.layout.under({{"RONDO_TIMEOUT",
                        std::to_string(kind.ends_by_deadline ? factor * of.seconds : kLongSeconds)},
                       {"RONDO_INIT_TIMEOUT", std::to_string(kLongSeconds)}});
  job.create = false;
  RankProcesses ranks(job, [&](NcclRank& seat) { run_rank(seat, kind, factor * kWordSeconds); });
  const int last = kFaultRanks - 1;
  if (kind.kills_last) {
    ranks.wait_stage(kInCall);
    nap(0.3 * factor);  // the others are in their calls
    ranks.send(last, SIGKILL);
  }
  ranks.wait_reports(kind.last_leaves ? std::set<int>{last} : std::set<int>{});
  // Timing decides whether a rank gets the fault in this call or in its next one.
  std::vector<std::string> blocks;
  for (int rank = 0; rank < kFaultRanks; ++rank)
    if (ranks.reported(rank) && ranks.status(rank) != StatusCode::kSuccess)
      blocks.push_back(block_of(static_cast<ncclResult_t>(ranks.status(rank)), ranks.text(rank),
                                kind, job.hosts.empty()));
  return blocks;
}

}  // namespace

void expect_golden_faults(const FaultLayout& of) {
  GoldenSets golden("faults.txt", of.name);
  for (const FaultKind& kind : fault_kinds()) {
    if ((kind.kills_last || kind.last_leaves) && of.layout.processes.back().size() != 1) continue;
    if (golden.writes()) {
      for (int round = 0; round < kRoundsToWrite; ++round)
        for (const std::string& block : outcomes(of, kind, 1)) golden.expect(kind.name, block);
      continue;
    }
    std::vector<std::string> blocks;
    double factor = 1;
    for (int attempt = 0; attempt < kAttempts; ++attempt, factor *= 4) {
      blocks = outcomes(of, kind, factor);
      const auto known = [&](const std::string& block) { return golden.knows(kind.name, block); };
      if (!blocks.empty() && std::all_of(blocks.begin(), blocks.end(), known)) break;
    }
    EXPECT_FALSE(blocks.empty()) << kind.name << ": nobody was told";
    for (const std::string& block : blocks) golden.expect(kind.name, block);
  }
}

}  // namespace rondo::test
