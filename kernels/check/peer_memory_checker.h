// PeerMemoryChecker: runs PeerMemory algorithms of all ranks of a host on expressions.
//
// Proves for the added calls, run one after another on one communicator: every output element is
// the expression that its Job requires; nothing else is changed; all accesses to a staging slot, an
// exposed buffer or a user's buffer are ordered; no slot overflows; there is no deadlock; no rank
// touches another rank's buffers after that rank's call has returned. Ranks may expose different
// buffers.
//
//   PeerMemoryChecker checker(pool, {.ranks = n, .slot_elements = 8});
//   checker.call(job, exposures, [&](auto& p) { one_shot_all_reduce(p, rounds); });
//   EXPECT_EQ(checker.run().finding, "");
//
// With several hosts, ranks share memory only inside their host, and hierarchical algorithms send
// data between hosts along connections (call_across).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "kernels/check/channels.h"
#include "kernels/check/job.h"
#include "kernels/check/peer_memory_program.h"
#include "kernels/check/schedule.h"
#include "transport/connection.h"

namespace rondo::check {

struct PeerMemoryOptions {
  int ranks = 1;
  std::uint64_t slot_elements = 0;
  std::optional<std::uint64_t> seed{};    // seed of the schedule
  std::vector<std::vector<int>> hosts{};  // ranks of each, ascending; empty: all on one
  int link_slots = 2;                     // per connection between hosts
  std::uint64_t link_elements = 0;        // elements per slot of these
};

class PeerMemoryChecker {
 public:
  PeerMemoryChecker(Expressions& pool, const PeerMemoryOptions& options);
  PeerMemoryChecker(const PeerMemoryChecker&) = delete;
  PeerMemoryChecker& operator=(const PeerMemoryChecker&) = delete;

  // One call of all ranks. exposures[r]: kExposesInput | kExposesOutput. scaled: PreMulSum; its
  // inputs are never exposed, and each rank's operand lies in its own slot.
  template <class Algorithm>
  void call(const Job& job, const std::vector<std::uint32_t>& exposures, Algorithm&& text,
            bool scaled = false) {
    record(job, exposures, scaled, [&](Rank& rank) { text(rank.program); });
  }

  // The same for hierarchical algorithms: text(host, cross, map).
  template <class Algorithm>
  void call_across(const Job& job, const std::vector<std::uint32_t>& exposures, Algorithm&& text,
                   bool scaled = false) {
    record(job, exposures, scaled, [&](Rank& rank) {
      const HostMap map = map_of(rank);
      CrossProgram cross(rank.program, map);
      text(rank.program, cross, map);
    });
  }

  Verdict run();

 private:
  struct Call {
    Job job;
    std::vector<std::uint32_t> exposures;
    bool scaled;
    std::vector<UserBuffers> users;
    TrackedMemory announced;  // by rank: written when the rank enters
    Expectation expected;
    std::vector<std::uint64_t> steps;  // by host: number of steps of the first rank that returned
  };
  struct Rank {
    Rank(PeerMemoryProgram p, int its_host) : program(std::move(p)), host(its_host) {}
    PeerMemoryProgram program;
    int host;
    std::size_t at = 0;
    Call* call = nullptr;
    int number = -1;               // number of the call
    std::uint64_t first_step = 0;  // steps before the call
    std::uint64_t last_look = 0;   // the step after its last reduce or copy
    std::array<std::uint64_t, kStagingSlots> slot_last{};
    std::array<Piece, kStagingSlots> last_exposed{};
    std::array<TrackedMemory, kStagingSlots> slots;
    std::vector<Clocks::Snapshot> steps;
  };
  using Op = PeerMemoryOp;

  template <class Add>
  void record(const Job& job, const std::vector<std::uint32_t>& exposures, bool scaled, Add&& add) {
    const auto number = static_cast<std::int16_t>(add_call(job, exposures, scaled));
    for (Rank& rank : ranks_) {
      rank.program.add({PeerMemoryOp::Verb::kEnter, number});
      add(rank);
      rank.program.add({PeerMemoryOp::Verb::kReturn, number});
    }
  }
  int add_call(const Job& job, const std::vector<std::uint32_t>& exposures, bool scaled);
  HostMap map_of(const Rank& rank) const;
  // The ranks that share memory with rank r, including itself.
  const std::vector<int>& view(int r) const { return options_.hosts[ranks_[r].host]; }
  Turn step(int r);
  std::string why_blocked(int r);
  // A peer that has not yet taken the steps which the verb waits for, or -1.
  int awaited(int r, const Op& op) const;
  std::uint64_t needed_step(int r, const Op& op) const;
  void join_awaited(int r, const Op& op);
  void perform(int r, const Op& op);
  void expose(int r, const Op& op);
  void reduce(int r, const Op& op);
  void copy(int r, const Op& op);
  void copy_result(int r, const Op& op);
  void copy_own(int r, const Op& op);
  void expose_kept(int r, const Op& op);
  void reduce_kept(int r, const Op& op);
  bool scale_own(int r, const Op& op);
  void copy_from_slot(int r, const Op& op);
  template <class Deliver>
  void combine(int r, const Op& op, Deliver&& deliver);
  // The ranks to which rank r delivers directly; `staged`: others fetch it from its slot.
  std::vector<int> receivers(int r, int only, bool& staged);
  void leave_call(int r);
  bool exposes(int reader, int owner, std::uint32_t what);
  // fits: false (and reported) if the slot would overflow. claim: the same; the next step publishes
  // the slot.
  bool fits(int r, int slot, std::uint64_t window, std::uint64_t count);
  bool claim(int r, int slot, std::uint64_t window, std::uint64_t count);

  Expressions& pool_;
  PeerMemoryOptions options_;
  Witness witness_;
  std::vector<Rank> ranks_;
  std::deque<Call> calls_;
  Channels channels_;
  std::vector<int> first_, by_host_;  // arrays of HostMap
};

}  // namespace rondo::check
