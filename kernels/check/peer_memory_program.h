// PeerMemoryProgram: a PeerMemory executor that only records the verbs.
//
// An algorithm's control flow depends only on rank, size and rounds, never on data. So the list of
// its verbs describes it completely. PeerMemoryChecker runs the lists of all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/algorithms/hierarchical.h"
#include "kernels/check/links_program.h"
#include "kernels/primitives.h"

namespace rondo::check {

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
  PeerMemoryProgram(int rank, int size) : rank_(rank), size_(size) {}

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

}  // namespace rondo::check
