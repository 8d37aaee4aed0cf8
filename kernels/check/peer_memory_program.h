// PeerMemoryProgram: the PeerMemory executor that only writes down which verbs a text calls.
//
// A text's control flow depends on rank, size and rounds alone, never on data, so the list of its
// verbs is all there is to know about it; PeerMemoryChecker runs the lists of all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/primitives.h"

namespace rondo::check {

struct PeerMemoryOp {
  enum class Verb : std::uint8_t {
    kEnter,  // a call begins (not a verb of texts)
    kOpen,
    kExpose,
    kPublish,
    kWait,
    kReduce,
    kCopy,
    kCopyResult,
    kCopyOwn,
    kLeave,  // release() is a publication and this
    kReturn  // a call has ended (not a verb of texts)
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
  void release() {
    publish();
    add({Verb::kLeave});
  }

  using Verb = PeerMemoryOp::Verb;
  void add(const PeerMemoryOp& op) { ops_.push_back(op); }
  const std::vector<PeerMemoryOp>& ops() const { return ops_; }

 private:
  static std::int8_t narrow(int slot) { return static_cast<std::int8_t>(slot); }

  int rank_;
  int size_;
  std::vector<PeerMemoryOp> ops_;
};

static_assert(PeerMemory<PeerMemoryProgram>);

}  // namespace rondo::check
