// StatusExchange: what ranks of other hosts are doing.
//
// Within a host every rank reads the announcements of all others. Between hosts a rank that has
// waited for long asks, and a rank that waits answers, for its whole host. So different calls and
// cycles of waits are found, and at the deadline every rank's call is known. Each rank asks those
// of other hosts that have a number like its own there, and the one that it waits for: at most 128
// in all, each again only once it has answered. Cost: nothing in waits that are shorter than 200
// ms; then a message and an answer of about 100 bytes a rank, every 300 ms.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/communicator/rank_context.h"
#include "collectives/watchdog/call_comparer.h"
#include "collectives/watchdog/rank_report.h"

namespace rondo {

class StatusExchange : RankPart {
 public:
  struct Known {
    bool heard = false, asked = false;
    // In that wait of its, for this rank, nothing was on its way to it, since this rank is in that
    // collective.
    std::uint32_t quiet_waits = 0;
    std::uint64_t quiet_sequence = 0;
    std::int64_t heard_ns = 0;
    int reporter = -1;         // whose report it was,
    std::uint64_t number = 0;  // and which of its reports
    RankReport report;
  };

  StatusExchange(RankContext& context, CallComparer& comparer)
      : RankPart(context), comparer_(comparer) {}

  // limit_ns: of the wait.
  void begin_wait(double limit_ns);
  // Asks when it is time; true, and a fault, if an answer shows that a rank made another call.
  bool check(int awaited, std::int64_t waited_ns);
  // Called while the links move: it may send, but raises nothing.
  void on_message(int peer, std::span<const std::byte> message);
  // Of a rank of another host; null: nothing was heard of it.
  const Known* of(int global) const;

 private:
  void prepare();
  void ask(int awaited);
  void tell(int peer, bool is_question, std::uint64_t wanted);
  bool differs(const RankReport& theirs);

  CallComparer& comparer_;
  std::vector<Known> known_;  // by rank; empty before the first wait that lasts
  bool news_ = false;
  std::uint64_t reported_ = 0;            // reports by this rank
  std::vector<std::uint32_t> waits_now_;  // of this host's ranks, for a report
  std::int64_t next_question_ns_ = 0;     // waited_ns from which on this wait asks again
};

}  // namespace rondo
