// SPDX-License-Identifier: Apache-2.0
// LineMemory: the PeerMemory executor for calls whose data travels with the announcement.
//
// Up to kPayloadBytes, one cache line per rank carries the call and its data. Up to kBesideBytes,
// the data lies in lines beside it, which readers fetch together with it. Either way a call is one
// exchange. No step follows, because a reader does not read the lines again after it has announced
// its next call.
// Requires: the exposed data fits; the algorithm publishes once and delivers nothing to slots
// (one-shot).
#pragma once

#include <cassert>
#include <cstring>

#include "kernels/host/announcer.h"
#include "kernels/host/simd/reduce_kernels.h"

namespace rondo::host {

class LineMemory {
 public:
  // `beside`: the data does not fit into the announcement; equal on all ranks.
  LineMemory(HostRank& rank, const HostCall& call, bool beside)
      : rank_(rank),
        call_(call),
        element_(size_of(call.type)),
        beside_(beside),
        announcer_(rank, call.announced()) {
    assert(rank.size <= kMaxRanks);
    announcer_.reserve_line();
  }

  int rank() const { return rank_.rank; }
  int size() const { return rank_.size; }
  bool failed() const { return announcer_.failed(); }

  void open(int) {}

  void expose(int, const Piece& piece) {
    if (announcer_.failed() || piece.count == 0) return;
    std::byte* to = payload_of(rank_.rank) + piece.window * element_;
    assert((piece.window + piece.count) * element_ <= (beside_ ? kBesideBytes : kPayloadBytes));
    const std::byte* from = input() + piece.at * element_;
    if (call_.op == RedOp::kPreMulSum) {
      scale(to, from, piece.count, call_.type, call_.scalar);
    } else {
      std::memcpy(to, from, piece.count * element_);
    }
    exposed_ = piece;
  }

  void publish() {
    ++rank_.step;
    announcer_.publish_line(0);
  }

  void wait(int r) { announcer_.wait_line(r); }

  void reduce(int, const Piece& piece, const Delivery& to) {
    if (announcer_.failed() || piece.count == 0 || !to.keep) return;
    assert((piece.window + piece.count) * element_ <= (beside_ ? kBesideBytes : kPayloadBytes));
    // Only algorithms that reduce exactly the piece that they exposed, or other elements, run here.
    const bool own_is_staged = exposed_.count == piece.count && exposed_.at == piece.at;
    alignas(kLineBytes) std::byte scratch[kBesideBytes];
    const void* sources[kMaxRanks];
    for (int r = 0; r < rank_.size; ++r) sources[r] = payload_of(r) + piece.window * element_;
    if (!own_is_staged) {
      sources[rank_.rank] = input() + piece.at * element_;
      if (call_.op == RedOp::kPreMulSum) {
        scale(scratch, sources[rank_.rank], piece.count, call_.type, call_.scalar);
        sources[rank_.rank] = scratch;
      }
    }
    void* target = output() + to.at * element_;
    reduce_function(call_.type,
                    call_.op)({sources, rank_.size, &target, 1, piece.count, rank_.size, true, 0});
  }

  void copy(int r, int, const Piece& piece, std::uint64_t at) {
    if (announcer_.failed() || piece.count == 0) return;
    assert((piece.window + piece.count) * element_ <= (beside_ ? kBesideBytes : kPayloadBytes));
    std::memcpy(output() + at * element_, payload_of(r) + piece.window * element_,
                piece.count * element_);
  }

  void copy_result(int, int, const Piece&) { assert(!"one-shot texts deliver nothing to slots"); }

  void copy_own(std::uint64_t from, std::uint64_t at, std::uint64_t count) {
    if (announcer_.failed() || count == 0) return;
    std::memmove(output() + at * element_, input() + from * element_, count * element_);
  }

  void release() {}

  static constexpr int kMaxRanks = 64;  // above, the planner takes the staged path

 private:
  const std::byte* input() const { return static_cast<const std::byte*>(call_.input); }
  std::byte* output() const { return static_cast<std::byte*>(call_.output); }

  std::byte* payload_of(int r) {
    return beside_ ? announcer_.beside_of_peer(r) : announcer_.line_of_peer(r).payload;
  }

  HostRank& rank_;
  const HostCall& call_;
  std::size_t element_;
  const bool beside_;
  Announcer announcer_;
  Piece exposed_{0, 0, 0};
};

static_assert(PeerMemory<LineMemory>);

}  // namespace rondo::host
