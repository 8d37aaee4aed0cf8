// SPDX-License-Identifier: Apache-2.0
// StagedMemory: the PeerMemory executor over staging memory and, where peers can reach them, over
// the callers' own buffers.
//
// For each call, a rank decides whether peers may read its input and write its output directly.
// That is possible in the same process, or if the buffer lies in the process's arena. In calls that
// only copy, other processes may also read a private input by process_vm_readv (kExposesToReads).
// The rank publishes the decision in its announcement. The algorithm does not notice: expose()
// copies or does nothing; reduce() writes to every reachable output and to staging for the others;
// copy_result() copies or does nothing. A rank whose call fails withdraws what it has exposed:
// withdraw() returns when no peer touches it and none will. If a peer is stuck in a touch, it
// returns once the memory is unreachable for that peer.
//
// withdraw() waits for no process_vm_readv. A read changes nothing in the memory of its owner, so a
// stopped reader that continues later does no harm there. It harms no result either: an owner that
// leaves a failed call sets `faulted` before its caller can reuse the buffer, and a reader looks at
// `faulted` after each read. If a read saw any byte that was stored after the owner had left, the
// look sees the fault, and the reader's call fails. An owner that succeeds leaves only after its
// readers have taken the step after their reads.
//
// Large copies and sums are shared among threads (kernels/host/sharing.h). All have ended before a
// step is published, and before a verb returns. Cost: at most one copy in and one copy out per
// element; none where buffers are exposed.
#pragma once

#include <array>
#include <cstring>
#include <optional>

#include "kernels/host/announcer.h"
#include "kernels/host/simd/reduce_kernels.h"
#include "kernels/host/staging.h"
#include "kernels/primitives.h"

namespace rondo::host {

class StagedMemory {
 public:
  StagedMemory(HostRank& rank, const HostCall& call);

  int rank() const { return rank_.rank; }
  int size() const { return rank_.size; }
  bool failed() const { return announcer_.failed(); }

  void open(int slot);
  void expose(int slot, const Piece& piece);
  void publish();
  void wait(int r);
  void reduce(int slot, const Piece& piece, const Delivery& to);
  void copy(int r, int slot, const Piece& piece, std::uint64_t at);
  void copy_result(int r, int slot, const Piece& piece);
  void copy_own(std::uint64_t from, std::uint64_t at, std::uint64_t count);
  void expose_kept(int slot, const Piece& piece);
  void reduce_kept(int slot, const Piece& piece, int to, std::uint64_t window);
  void copy_kept(int r, int slot, const Piece& piece);
  std::byte* own_slot(int slot) const { return staging_.of(rank_.rank, slot, 0); }
  void release();
  int growth(std::uint64_t rounds);
  void fail() { announcer_.fail(); }

  // Must be called after a failed call, before its buffers return to the caller.
  void withdraw();

 private:
  const std::byte* input() const { return static_cast<const std::byte*>(call_.input); }
  std::byte* output() const { return static_cast<std::byte*>(call_.output); }
  // Local address of peer r's input (output), or null if it is staged.
  Exposure exposed_by(int r) const;
  const std::byte* exposed_input(int r);
  std::byte* exposed_output(int r);
  std::byte* at_place(int r, std::uint64_t place);
  bool must_read(int r) const;
  void read(int r, const Piece& piece, std::uint64_t at);
  void copy_out(void* to, const void* from, std::size_t bytes);
  void scale_own(std::byte* to, const std::byte* from, std::uint64_t count);
  const std::byte* own_source(int slot, const Piece& piece);
  bool find_sources(int slot, const Piece& piece, const void** sources);
  // Peers' exposed buffers may be accessed only after a Touch was announced and may_touch() is
  // true.
  bool is_awaited_at_once() const;
  bool exposed_by_peers() const;
  bool may_touch(int r);
  bool may_touch_all();
  bool was_cut_off();

  HostRank& rank_;
  const HostCall& call_;
  std::size_t element_;
  Announcer announcer_;
  Staging staging_;
  bool announced_ = false;
  std::uint32_t exposure_ = 0;
  std::optional<CoreTime::Times> rounds_begin_;  // of a call of many rounds
  std::uint64_t withdrawals_ = 0;  // counter of this process's memory, at the call's begin
  std::uint64_t last_look_ = 0;    // the step after this rank's last access to peers' buffers
  std::array<Piece, kStagingSlots> last_exposed_{};
};

static_assert(RelayingMemory<StagedMemory>);

}  // namespace rondo::host
