// SPDX-License-Identifier: Apache-2.0
// PeerMemoryChecker: runs PeerMemory algorithms of all ranks of a host on expressions.
//
// Proves for the added calls, run one after another on one communicator: every output element is
// the expression that its CallSpec requires; nothing else is changed; all accesses to a staging
// slot, an exposed buffer or a user's buffer are ordered; no slot overflows; there is no deadlock;
// no rank touches another rank's buffers after that rank's call has returned. Ranks may expose
// different buffers.
//
//   PeerMemoryChecker checker(pool, {.ranks = n, .slot_elements = 8});
//   checker.call(spec, exposures, [&](auto& p) { one_shot_all_reduce(p, rounds); });
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

#include "kernels/algorithms/hierarchical.h"
#include "kernels/primitives.h"
#include "tests/checker/call_spec.h"
#include "tests/checker/channels.h"
#include "tests/checker/schedule.h"
#include "transport/connection.h"

namespace rondo::check {

// PeerMemoryProgram: a PeerMemory executor that only records the verbs.
//
// An algorithm's control flow depends only on rank, size and rounds, never on data. So the list of
// its verbs describes it completely. PeerMemoryChecker runs the lists of all ranks.
struct PeerMemoryOp {
  enum class Verb : std::uint8_t {
    kEnter,  // a call begins (not an algorithm's verb)
    kOpen,
    kExpose,
    kPublish,
    kWait,
    kReduce,
    kCopy,
    kCopyResult,
    kCopyOwn,
    kExposeKept,
    kReduceKept,
    kCopyKept,
    kLink,   // a verb over connections: links()[at]
    kLeave,  // release() is kPublish, then kLeave
    kReturn  // a call has ended (not an algorithm's verb)
  };
  Verb verb;
  std::int16_t peer = -1;
  std::int8_t slot = -1;
  Piece piece{0, 0, 0};
  std::uint64_t at = 0;
  Delivery to{false, 0, -1, 0, -1};
};

class PeerMemoryProgram {
 public:
  PeerMemoryProgram(int rank, int size, int growth) : rank_(rank), size_(size), growth_(growth) {}

  int rank() const { return rank_; }
  int size() const { return size_; }

  void open(int slot) { add({Verb::kOpen, -1, narrow(slot)}); }
  void expose(int slot, const Piece& piece) { add({Verb::kExpose, -1, narrow(slot), piece}); }
  void publish() { add({Verb::kPublish}); }
  void wait(int r) { add({Verb::kWait, static_cast<std::int16_t>(r)}); }
  void reduce(int slot, const Piece& piece, const Delivery& to) {
    add({Verb::kReduce, -1, narrow(slot), piece, 0, to});
  }
  void copy(int r, int slot, const Piece& piece, std::uint64_t at) {
    add({Verb::kCopy, static_cast<std::int16_t>(r), narrow(slot), piece, at});
  }
  void copy_result(int r, int slot, const Piece& piece) {
    add({Verb::kCopyResult, static_cast<std::int16_t>(r), narrow(slot), piece});
  }
  void copy_own(std::uint64_t from, std::uint64_t at, std::uint64_t count) {
    add({Verb::kCopyOwn, -1, -1, {from, 0, count}, at});
  }
  void expose_kept(int slot, const Piece& piece) {
    add({Verb::kExposeKept, -1, narrow(slot), piece});
  }
  void reduce_kept(int slot, const Piece& piece, int to, std::uint64_t window) {
    add({Verb::kReduceKept, -1, narrow(slot), piece, 0, {false, 0, to, window, -1}});
  }
  void copy_kept(int r, int slot, const Piece& piece) {
    add({Verb::kCopyKept, static_cast<std::int16_t>(r), narrow(slot), piece});
  }
  void release() {
    publish();
    add({Verb::kLeave});
  }
  int growth(std::uint64_t) const { return growth_; }

  using Verb = PeerMemoryOp::Verb;
  void add(const PeerMemoryOp& op) { ops_.push_back(op); }
  void add_link(const LinksOp& op) {
    add({Verb::kLink, -1, -1, {0, 0, 0}, links_.size()});
    links_.push_back(op);
  }
  const std::vector<PeerMemoryOp>& ops() const { return ops_; }
  const std::vector<LinksOp>& links() const { return links_; }

 private:
  static std::int8_t narrow(int slot) { return static_cast<std::int8_t>(slot); }

  int rank_;
  int size_;
  int growth_;
  std::vector<PeerMemoryOp> ops_;
  std::vector<LinksOp> links_;
};

static_assert(RelayingMemory<PeerMemoryProgram>);

// The cross view of a hierarchical algorithm (kernels/algorithms/hierarchical.h). Records verbs
// between this rank and its partners on other hosts, in their order among the verbs inside the
// host.
class CrossProgram {
 public:
  CrossProgram(PeerMemoryProgram& host, const HostMap& map) : host_(host), map_(map) {}

  int rank() const { return map_.host; }
  int size() const { return map_.hosts; }
  LinkPort<CrossProgram> between(Peers from, Peers to, int channel) {
    return {*this, on_rail(from), on_rail(to), channel};
  }
  template <class A, class B>
  void roles(A&&, B&&) {}  // unused by hierarchical algorithms
  CrossProgram at(std::uint64_t begin) const {
    CrossProgram moved = *this;
    moved.begin_ = begin;
    return moved;
  }
  CrossProgram in_slot(int slot) const {
    CrossProgram moved = *this;
    moved.slot_ = slot;
    return moved;
  }

  void add(LinksOp op) {
    op.chunk.in_at += begin_;
    op.chunk.out_at += begin_;
    op.own_is_output = true;
    op.own_slot = slot_;
    host_.add_link(op);
  }

 private:
  Peers on_rail(Peers hosts) const {
    const auto rank = [&](int h) { return h < 0 ? -1 : map_.rank(h, host_.rank()); };
    return {rank(hosts.first), rank(hosts.second)};
  }

  PeerMemoryProgram& host_;
  HostMap map_;
  std::uint64_t begin_ = 0;
  int slot_ = -1;
};

static_assert(FoldingLinks<CrossProgram>);

struct PeerMemoryOptions {
  int ranks = 1;
  std::uint64_t slot_elements = 0;
  int growth = 1;                         // of rounds after the first, in algorithms that can
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
  void call(const CallSpec& spec, const std::vector<std::uint32_t>& exposures, Algorithm&& text,
            bool scaled = false) {
    record(spec, exposures, scaled, [&](Rank& rank) { text(rank.program); });
  }

  // The same for hierarchical algorithms: text(host, cross, map).
  template <class Algorithm>
  void call_across(const CallSpec& spec, const std::vector<std::uint32_t>& exposures,
                   Algorithm&& text, bool scaled = false) {
    record(spec, exposures, scaled, [&](Rank& rank) {
      const HostMap map = map_of(rank);
      CrossProgram cross(rank.program, map);
      text(rank.program, cross, map);
    });
  }

  Verdict run();

 private:
  struct Call {
    CallSpec spec;
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
  void record(const CallSpec& spec, const std::vector<std::uint32_t>& exposures, bool scaled,
              Add&& add) {
    const auto number = static_cast<std::int16_t>(add_call(spec, exposures, scaled));
    for (Rank& rank : ranks_) {
      rank.program.add({PeerMemoryOp::Verb::kEnter, number});
      add(rank);
      rank.program.add({PeerMemoryOp::Verb::kReturn, number});
    }
  }
  int add_call(const CallSpec& spec, const std::vector<std::uint32_t>& exposures, bool scaled);
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
