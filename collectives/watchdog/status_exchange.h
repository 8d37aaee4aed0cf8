// SPDX-License-Identifier: Apache-2.0
// StatusExchange: gets the state of ranks on other hosts.
//
// Within a host every rank reads the announcements of all others. Between hosts, a rank that has
// waited long asks, and a rank that waits answers for its whole host. This finds different calls
// and wait cycles, and gives every rank's call at the deadline. Each rank asks the rank that it
// waits for and about 128 ranks of other hosts (all, or every n-th of a host, chosen by its own
// local number), each again only after it answered. Cost: nothing in waits shorter than 200 ms;
// then a question and an answer of about 100 bytes per rank every 300 ms.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/faults/rank_report.h"
#include "collectives/rank/rank_context.h"
#include "collectives/watchdog/call_comparer.h"

namespace rondo {

class StatusExchange : RankPart {
 public:
  struct Known {
    bool received = false, asked = false;
    // In the peer's wait number `quiet_waits` for this rank, nothing was in flight to the peer
    // since this rank entered collective `quiet_sequence`.
    std::uint32_t quiet_waits = 0;
    std::uint64_t quiet_sequence = 0;
    std::int64_t received_ns = 0;
    int reporter = -1;         // the rank that sent the report
    std::uint64_t number = 0;  // number of that report
    RankReport report;
  };

  StatusExchange(RankContext& context, CallComparer& comparer)
      : RankPart(context), comparer_(comparer) {}

  // limit_ns: time limit of the wait.
  void begin_wait(double limit_ns);
  // Asks when it is time. Raises a fault and returns true if an answer shows that a rank made
  // another call.
  bool check(int awaited, std::int64_t waited_ns);
  // Called while the links move: may send, never raises a fault.
  void on_message(int peer, std::span<const std::byte> message);
  // State of a rank of another host; null: no report received.
  const Known* of(int global) const;

 private:
  void prepare();
  void ask(int awaited);
  void send(int peer, bool is_question, std::uint64_t wanted);
  bool differs(const RankReport& theirs);

  CallComparer& comparer_;
  std::vector<Known> known_;  // by rank; empty before the first long wait
  bool news_ = false;
  std::uint64_t reported_ = 0;            // number of reports by this rank
  std::vector<std::uint32_t> waits_now_;  // waits of this host's ranks, for a report
  std::int64_t next_question_ns_ = 0;     // this wait asks again at this waited_ns
};

}  // namespace rondo
