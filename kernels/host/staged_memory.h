// StagedMemory: the PeerMemory executor over staging memory and, where peers can reach them, over
// the callers' own buffers.
//
// Each rank decides for itself, per call, whether peers may read its input and write its output in
// place (same process, or the buffer lies in the process's arena), says so in its announcement, and
// every peer reads it there. The text does not know: expose() copies or does nothing, reduce()
// writes to every output within reach and to staging for the others, copy_result() fetches or finds
// it done. A rank whose call fails withdraws what it has exposed: withdraw() returns when no peer
// touches it any more and none will, or, where a peer stands still in a touch, once the memory has
// been taken out of its reach.
// Cost: at most one copy in and one copy out per element; none where buffers are exposed.
#pragma once

#include <array>
#include <cstring>

#include "kernels/host/announcer.h"
#include "kernels/host/reduce_kernels.h"
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
  void fail() { announcer_.fail(); }

  // Must follow a failed call, before its buffers are given back to the caller.
  void withdraw();

 private:
  const std::byte* input() const { return static_cast<const std::byte*>(call_.input); }
  std::byte* output() const { return static_cast<std::byte*>(call_.output); }
  // Where peer r's input (output) can be read (written) from here, or null: it is staged.
  Exposure exposed_by(int r) const;
  const std::byte* exposed_input(int r);
  std::byte* exposed_output(int r);
  std::byte* at_place(int r, std::uint64_t place);
  const std::byte* own_source(int slot, const Piece& piece);
  bool find_sources(int slot, const Piece& piece, const void** sources);
  // What peers expose is touched only between these: after a Touch was announced.
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
  std::uint64_t withdrawals_ = 0;  // of memory of this process, when the call began
  std::uint64_t last_look_ = 0;  // the step that follows what this rank last did in peers' buffers
  std::array<Piece, kStagingSlots> last_exposed_{};
};

static_assert(RelayingMemory<StagedMemory>);

}  // namespace rondo::host
