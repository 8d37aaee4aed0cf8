// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/staged_memory.h"

#include <cassert>
#include <utility>

#include "kernels/host/touch.h"

namespace rondo::host {
namespace {
constexpr std::uint64_t kManyRounds = 16;  // with fewer, larger ones overlap too little
}

StagedMemory::StagedMemory(HostRank& rank, const HostCall& call)
    : rank_(rank),
      call_(call),
      element_(size_of(call.type)),
      announcer_(rank, call.announced()),
      staging_(rank, element_, announcer_.sequence(), call.slot_parts) {
  assert(call.segments == nullptr && "SegmentedMemory runs groups");
  rank.recorder.enter();  // its announcement follows the copy of the first round
  announcer_.reserve_line();
  if (call.op == RedOp::kPreMulSum) return;  // peers must see scaled inputs
  if (rank.arena.withdrawals != nullptr)
    withdrawals_ = HostAtomics::load_acquire(*rank.arena.withdrawals);
  const std::uint64_t places[] = {place_of(rank.arena, call.input),
                                  place_of(rank.arena, call.output)};
  const auto reachable = [&](const void* buffer, std::uint64_t place) {
    return buffer != nullptr && (rank_.all_same_process || place != 0);
  };
  if (call.may_expose_input && reachable(call.input, places[0])) exposure_ |= kExposesInput;
  if (call.may_expose_output && reachable(call.output, places[1])) exposure_ |= kExposesOutput;
  if (((places[0] | places[1]) & kPlacePartly) && !rank_.all_same_process)
    exposure_ = rank_.hooks.exposable(rank_.hooks.owner, call, exposure_);
  if (call.may_expose_to_reads && !(exposure_ & kExposesInput)) exposure_ |= kExposesToReads;
  if (exposure_ == 0) return;
  const Exposure exposed{reinterpret_cast<std::uintptr_t>(call.input),
                         reinterpret_cast<std::uintptr_t>(call.output), places[0] & ~kPlacePartly,
                         places[1] & ~kPlacePartly};
  std::memcpy(announcer_.own_line().payload, &exposed, sizeof(exposed));
}

Exposure StagedMemory::exposed_by(int r) const {
  assert(r >= 0 && r < rank_.size);
  Exposure exposed;
  std::memcpy(&exposed, announcer_.line_of_peer(r).payload, sizeof(exposed));
  return exposed;
}

// Null (and the call fails) if the peer's memory cannot be mapped.
std::byte* StagedMemory::at_place(int r, std::uint64_t place) {
  assert(r != rank_.rank && "a rank reaches its own buffers by their pointers");
  const PeerPort& peer = rank_.peers[r];
  if (std::byte* at = reach(peer, place)) return at;
  if (!rank_.hooks.on_first_reach(rank_.hooks.owner, r, place)) announcer_.fail();
  return reach(peer, place);
}

const std::byte* StagedMemory::exposed_input(int r) {
  if (!(rank_.exposure[r] & (kExposesInput | kExposesToReads))) return nullptr;
  assert(!must_read(r));
  const Exposure exposed = exposed_by(r);
  if (rank_.peers[r].same_process) return reinterpret_cast<const std::byte*>(exposed.input_pointer);
  return at_place(r, exposed.input_place);
}

std::byte* StagedMemory::exposed_output(int r) {
  if (!(rank_.exposure[r] & kExposesOutput)) return nullptr;
  const Exposure exposed = exposed_by(r);
  if (rank_.peers[r].same_process) return reinterpret_cast<std::byte*>(exposed.output_pointer);
  return at_place(r, exposed.output_place);
}

// True if the peer's input is private memory of another process. Only copy() can take such data.
bool StagedMemory::must_read(int r) const {
  return (rank_.exposure[r] & kExposesToReads) && !rank_.peers[r].same_process;
}

// The fence orders the look at the peer's fault after the read; withdraw() has its counterpart.
void StagedMemory::read(int r, const Piece& piece, std::uint64_t at) {
  assert(must_read(r) && rank_.memories.size() == static_cast<std::size_t>(rank_.size));
  const std::size_t bytes = piece.count * element_;
  const std::uint64_t from = exposed_by(r).input_pointer + piece.at * element_;
  const int error = rank_.memories[r].read(output() + at * element_, from, bytes);
  rank_.read_bytes += bytes;
  HostAtomics::fence_seq_cst();
  if (!may_touch(r) || error == 0) return;
  rank_.hooks.on_failed_read(rank_.hooks.owner, r, error);
  announcer_.fail();
}

void StagedMemory::open(int slot) { staging_.open(announcer_, slot); }

void StagedMemory::expose(int slot, const Piece& piece) {
  if (announcer_.failed() || piece.count == 0 ||
      (exposure_ & (kExposesInput | kExposesToReads)) != 0)
    return;
  std::byte* to = staging_.own_published(announcer_, slot, piece.window, piece.count);
  if (to == nullptr) return;
  const std::byte* from = input() + piece.at * element_;
  if (call_.op == RedOp::kPreMulSum) {
    scale_own(to, from, piece.count);
  } else {
    copy_out(to, from, piece.count * element_);
  }
  last_exposed_[slot] = piece;
}

// Into memory that peers read or own.
void StagedMemory::copy_out(void* to, const void* from, std::size_t bytes) {
  if (to == from) return;
  rank_.stores.copy_shared(bytes, [&](bool past, auto& own_parts) {
    rank_.sharing.run(bytes, [&](std::size_t begin, std::size_t end) {
      copy_bytes(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                 end - begin, past);
      own_parts.add(end - begin);
    });
  });
}

void StagedMemory::publish() {
  ++rank_.step;
  if (announced_) return announcer_.publish_step();
  announced_ = true;
  announcer_.publish_line(exposure_ | (rank_.wants_larger_rounds ? kWantsLargerRounds : 0));
}

int StagedMemory::growth(std::uint64_t rounds) {
  assert(announced_ && !rounds_begin_);
  if (rounds < kManyRounds) return 1;
  rounds_begin_ = CoreTime::now();
  const bool wanted =
      rank_.wants_larger_rounds || rank_.larger_rounds_call == announcer_.sequence();
  return wanted ? kLargerRounds : 1;
}

void StagedMemory::wait(int r) {
  if (announcer_.wait_line(r)) announcer_.wait_step(r, rank_.step);
}

void StagedMemory::scale_own(std::byte* to, const std::byte* from, std::uint64_t count) {
  rank_.sharing.run(count * element_, [&](std::size_t begin, std::size_t end) {
    scale(to + begin, from + begin, (end - begin) / element_, call_.type, call_.scalar);
  });
}

// This rank's own operand of a reduction. PreMulSum scales it into its window of this rank's
// staging, which no other rank reads (or it was exposed there already).
const std::byte* StagedMemory::own_source(int slot, const Piece& piece) {
  const std::byte* from = input() + piece.at * element_;
  if (call_.op != RedOp::kPreMulSum) return from;
  const Piece& last = last_exposed_[slot];
  if (last.count == piece.count && last.at == piece.at)
    return staging_.of(rank_.rank, slot, piece.window);
  std::byte* to = staging_.own(announcer_, slot, piece.window, piece.count);
  if (to != nullptr) scale_own(to, from, piece.count);
  return to;
}

// Finds the address of every rank's operand. False if there is no memory for this rank's own.
bool StagedMemory::find_sources(int slot, const Piece& piece, const void** sources) {
  for (int r = 0; r < rank_.size; ++r) {
    const std::byte* in_place = exposed_input(r);
    if (r == rank_.rank) {
      sources[r] = own_source(slot, piece);
      if (sources[r] == nullptr) return false;
    } else {
      sources[r] =
          in_place != nullptr ? in_place + piece.at * element_ : staging_.of(r, slot, piece.window);
    }
  }
  return true;
}

void StagedMemory::reduce_kept(int slot, const Piece& piece, int to, std::uint64_t window) {
  assert(to != slot && "peers still read their operands there");
  last_look_ = rank_.step + 1;
  if (announcer_.failed() || piece.count == 0) return;
  const Touch touch(rank_, exposed_by_peers());
  if (!may_touch_all()) return;
  Pointers<const void*> sources(rank_.size);
  if (!find_sources(slot, piece, sources.data())) return;
  void* place = staging_.own_published(announcer_, to, window, piece.count);
  if (place == nullptr) return;
  rank_.sharing.reduce(reduce_function(call_.type, call_.op),
                       {sources.data(), rank_.size, &place, 1, piece.count, rank_.size, false,
                        rank_.stores.past(piece.count * element_)},
                       element_);
}

void StagedMemory::copy_kept(int r, int slot, const Piece& piece) {
  if (announcer_.failed() || piece.count == 0) return;
  rank_.sharing.copy(output() + piece.at * element_, staging_.of(r, slot, piece.window),
                     piece.count * element_, call_.stream_stores);
}

void StagedMemory::reduce(int slot, const Piece& piece, const Delivery& to) {
  assert(to.slot < kStagingSlots && to.reader < rank_.size);
  last_look_ = rank_.step + 1;
  if (announcer_.failed() || piece.count == 0) return;
  const Touch touch(rank_, exposed_by_peers());
  if (!may_touch_all()) return;
  Pointers<const void*> sources(rank_.size);
  if (!find_sources(slot, piece, sources.data())) return;
  const std::size_t bytes = piece.count * element_;
  const bool past = rank_.stores.past(bytes);
  Pointers<void*> targets(rank_.size + 1);  // of peers first, then this rank's own
  int count = 0;
  bool staging_needed = false;
  for (int r = 0; r < rank_.size && to.slot >= 0; ++r) {
    if (r == rank_.rank || (to.reader >= 0 && r != to.reader)) continue;
    if (std::byte* in_place = exposed_output(r)) {
      targets[count++] = in_place + to.at * element_;
    } else {
      staging_needed = true;
    }
  }
  void* place = nullptr;
  if (staging_needed) {
    place = staging_.own_published(announcer_, to.slot, to.window, piece.count);
    if (place == nullptr) return;
    if (past) targets[count++] = std::exchange(place, nullptr);
  }
  int streamed = past ? count : 0;
  if (to.keep) targets[count++] = output() + to.at * element_;
  if (call_.stream_stores) streamed = count;
  const ReduceFn function = reduce_function(call_.type, call_.op);
  const ReduceArgs to_all{sources.data(), rank_.size, targets.data(), count,
                          piece.count,    rank_.size, to.finished,    streamed};
  if (place == nullptr)
    return count == 0 ? void() : rank_.sharing.reduce(function, to_all, element_);
  // The cache lines of staging, as those of the sources, come from the cores that read them last.
  // One loop that waits for both is slower than two loops (by 7 % at 256 KiB where cores share a
  // cache). Stores past the caches wait for neither.
  if (count == 0 || streamed > 0) {
    const ReduceArgs to_place{sources.data(), rank_.size, &place,      1,
                              piece.count,    rank_.size, to.finished, 0};
    rank_.sharing.reduce(function, to_place, element_);
    for (int t = 0; t < count; ++t) rank_.sharing.copy(targets[t], place, bytes, true);
  } else {
    rank_.sharing.reduce(function, to_all, element_);
    rank_.sharing.copy(place, targets[count - 1], bytes);
  }
}

void StagedMemory::copy(int r, int slot, const Piece& piece, std::uint64_t at) {
  assert(r >= 0 && r < rank_.size);
  last_look_ = rank_.step + 1;
  if (announcer_.failed() || piece.count == 0) return;
  if (must_read(r)) return read(r, piece, at);
  const std::byte* in_place = exposed_input(r);
  const Touch touch(rank_, in_place != nullptr);
  if (in_place != nullptr && !may_touch(r)) return;
  const std::byte* from =
      in_place != nullptr ? in_place + piece.at * element_ : staging_.of(r, slot, piece.window);
  rank_.sharing.copy(output() + at * element_, from, piece.count * element_, call_.stream_stores);
}

void StagedMemory::copy_result(int r, int slot, const Piece& piece) {
  if (announcer_.failed() || piece.count == 0 || (exposure_ & kExposesOutput)) return;
  rank_.sharing.copy(output() + piece.at * element_, staging_.of(r, slot, piece.window),
                     piece.count * element_, call_.stream_stores);
}

void StagedMemory::copy_own(std::uint64_t from, std::uint64_t at, std::uint64_t count) {
  if (announcer_.failed() || count == 0) return;
  std::byte* to = output() + at * element_;
  const std::byte* source = input() + from * element_;
  const std::size_t bytes = count * element_;
  const bool apart = to + bytes <= source || source + bytes <= to;
  if (apart) return rank_.sharing.copy(to, source, bytes);
  if (to != source) std::memmove(to, source, bytes);
}

void StagedMemory::expose_kept(int slot, const Piece& piece) {
  last_look_ = rank_.step + 1;
  if (announcer_.failed() || piece.count == 0) return;
  const Touch touch(rank_, exposed_by_peers());
  if (!may_touch_all()) return;
  const std::byte* kept = output() + piece.at * element_;
  const std::size_t bytes = piece.count * element_;
  bool staging_needed = false;
  for (int r = 0; r < rank_.size; ++r) {
    if (r == rank_.rank) continue;
    if (std::byte* in_place = exposed_output(r)) {
      copy_out(in_place + piece.at * element_, kept, bytes);
    } else {
      staging_needed = true;
    }
  }
  if (!staging_needed) return;
  if (std::byte* place = staging_.own_published(announcer_, slot, piece.window, piece.count))
    copy_out(place, kept, bytes);
}

void StagedMemory::release() {
  if (rounds_begin_) {
    rank_.core_time.add(*rounds_begin_, CoreTime::now());
    // Ranks that take turns at their cores need small rounds, which leave the caches to the others.
    rank_.wants_larger_rounds = rank_.core_time.is_short() && !rank_.core.is_enabled();
  }
  if (is_awaited_at_once()) {
    publish();
  } else {
    ++rank_.step;
    announcer_.owe_step();
  }
  if (exposure_ == 0) return;
  // Without a root all ranks run the same verbs at the same steps. So peers have finished with this
  // rank's buffers once they have taken the step after this rank's last access to theirs.
  const std::uint64_t needed = is_rooted(call_.record.collective) ? rank_.step : last_look_;
  for (int k = 1; k < rank_.size; ++k) {
    const int peer = (rank_.rank + k) % rank_.size;
    if (announcer_.wait_line(peer)) announcer_.wait_step(peer, needed);
  }
  if ((exposure_ & kExposesOutput) && !rank_.all_same_process && was_cut_off()) announcer_.fail();
}

// True if the memory of this call's output was replaced, so that peers' writes may be lost.
bool StagedMemory::was_cut_off() {
  return !announcer_.failed() &&
         HostAtomics::load_acquire(*rank_.arena.withdrawals) != withdrawals_ &&
         !rank_.hooks.still_whole(rank_.hooks.owner, call_);
}

// True if a peer may wait for this rank's last step before this rank's next call: to return a
// buffer that it has exposed, or to continue a call with a root, in which only it waits. Calls on
// parts of slots have one round and expose nothing.
bool StagedMemory::is_awaited_at_once() const {
  if (!announced_) return true;
  if (is_rooted(call_.record.collective)) return call_.slot_parts == 1;
  return (exposure_ != 0 || exposed_by_peers()) && last_look_ > rank_.step;
}

bool StagedMemory::exposed_by_peers() const {
  for (int r = 0; r < rank_.size; ++r)
    if (r != rank_.rank && rank_.exposure[r] != 0) return true;
  return false;
}

// A peer with a fault may have left its call: its buffers belong to its caller again. Either the
// peer sees the Touch and waits for its end, or this rank sees the fault.
bool StagedMemory::may_touch(int r) {
  assert(r >= 0 && r < rank_.size);
  if (HostAtomics::load_seq_cst(*rank_.peers[r].faulted) != 0) announcer_.fail();
  return !announcer_.failed();
}

bool StagedMemory::may_touch_all() {
  for (int r = 0; r < rank_.size && !announcer_.failed(); ++r)
    if (r != rank_.rank && rank_.exposure[r] != 0) may_touch(r);
  return !announcer_.failed();
}

void StagedMemory::withdraw() {
  if (exposure_ == 0) return;
  HostAtomics::store_seq_cst(*rank_.self().faulted, std::uint8_t{1});
  HostAtomics::fence_seq_cst();  // before what the program stores in the buffers
  if (!outlast_touches(rank_)) rank_.hooks.cut_off(rank_.hooks.owner, call_, exposure_);
}

}  // namespace rondo::host
