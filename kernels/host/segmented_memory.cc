// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/segmented_memory.h"

#include <cassert>
#include <cstring>

#include "kernels/host/touch.h"

namespace rondo::host {
namespace {

// Smaller parts are gathered: a reduction of their own would not pay.
constexpr std::size_t kSmallPart = 1024;
constexpr std::size_t kScratchBytes = 4096;

}  // namespace

SegmentedMemory::SegmentedMemory(HostRank& rank, const HostCall& call)
    : rank_(rank),
      call_(call),
      segments_(*call.segments),
      element_(size_of(call.type)),
      announcer_(rank, call.announced()),
      staging_(rank, element_, announcer_.sequence()) {
  assert(segments_.list().size() <= std::size(rank.self().group->counts));
  rank.recorder.enter();
  announcer_.reserve_line();
  if (announcer_.failed()) return;
  GroupList& list = *rank.self().group;
  HostAtomics::store_relaxed(list.sequence, std::uint64_t{0});
  HostAtomics::fence_seq_cst();
  std::uint32_t* next = list.counts;
  for (const Segment& segment : segments_.list())
    HostAtomics::store_relaxed(*next++, static_cast<std::uint32_t>(segment.count));
  HostAtomics::store_relaxed(list.calls, static_cast<std::uint32_t>(segments_.list().size()));
  HostAtomics::store_release(list.sequence, announcer_.sequence());
}

void SegmentedMemory::gather(std::byte* to, std::uint64_t at, std::uint64_t count,
                             bool past) const {
  segments_.for_each(at, count, [&](const Segments::Part& part, std::size_t before) {
    const std::size_t bytes = part.count * element_;
    copy_bytes(to + before, segments_.input(part), bytes, past && bytes >= kSmallPart);
  });
}

void SegmentedMemory::scatter(const std::byte* from, std::uint64_t at, std::uint64_t count) const {
  segments_.for_each(at, count, [&](const Segments::Part& part, std::size_t before) {
    copy_bytes(segments_.output(part), from + before, part.count * element_, false);
  });
}

void SegmentedMemory::expose(int slot, const Piece& piece) {
  if (announcer_.failed() || piece.count == 0) return;
  std::byte* to = staging_.own_published(announcer_, slot, piece.window, piece.count);
  if (to == nullptr) return;
  rank_.stores.copy(piece.count * element_,
                    [&](bool past) { gather(to, piece.at, piece.count, past); });
}

void SegmentedMemory::publish() {
  ++rank_.step;
  if (announced_) return announcer_.publish_step();
  announced_ = true;
  announcer_.publish_line(0);
}

// No buffer is exposed here. So, without a root, peers need the last step only to reuse their
// staging.
void SegmentedMemory::release() {
  if (is_rooted(call_.record.collective) || !announced_) return publish();
  ++rank_.step;
  announcer_.owe_step();
}

void SegmentedMemory::wait(int r) {
  if (announcer_.wait_line(r)) announcer_.wait_step(r, rank_.step);
}

void SegmentedMemory::combine(int slot, const Piece& piece, std::uint64_t done, std::uint64_t count,
                              const std::byte* own, std::byte* const* targets, int target_count,
                              bool first_past) const {
  assert(own != nullptr && target_count > 0 && target_count <= 2);
  Pointers<const void*> sources(rank_.size);
  for (int r = 0; r < rank_.size; ++r)
    sources[r] = r == rank_.rank ? own : staging_.of(r, slot, piece.window + done);
  void* outputs[2];
  for (int t = 0; t < target_count; ++t) outputs[t] = targets[t];
  reduce_function(call_.type, call_.op)(
      {sources.data(), rank_.size, outputs, target_count, count, rank_.size, true, first_past});
}

void SegmentedMemory::reduce(int slot, const Piece& piece, const Delivery& to) {
  assert(to.slot < kStagingSlots);
  if (announcer_.failed() || piece.count == 0) return;
  std::byte* place = nullptr;
  if (to.slot >= 0 && to.reader != rank_.rank && rank_.size > 1) {
    place = staging_.own_published(announcer_, to.slot, to.window, piece.count);
    if (place == nullptr) return;
  }
  if (!to.keep && place == nullptr) return;
  const bool past = rank_.stores.past(piece.count * element_);
  alignas(kLineBytes) std::byte operand[kScratchBytes], result[kScratchBytes];
  for (std::uint64_t done = 0; done < piece.count;) {
    const std::uint64_t left = piece.count - done;
    Segments::Part part = segments_.part(piece.at + done, left);
    const bool small = part.count * element_ < kSmallPart && part.count < left;
    const std::uint64_t count =
        small ? std::min<std::uint64_t>(left, kScratchBytes / element_) : part.count;
    const std::byte* own = segments_.input(part);
    std::byte* kept = result;
    if (small) {
      gather(operand, piece.at + done, count, false);
      own = operand;
    } else if (to.keep) {
      kept = segments_.output(segments_.part(to.at + done, count));
    }
    std::byte* targets[2];
    int target_count = 0;
    if (place != nullptr) targets[target_count++] = place + done * element_;
    if (to.keep) targets[target_count++] = kept;
    combine(slot, piece, done, count, own, targets, target_count, place != nullptr && past);
    if (small && to.keep) scatter(result, to.at + done, count);
    done += count;
  }
}

void SegmentedMemory::copy(int r, int slot, const Piece& piece, std::uint64_t at) {
  assert(r >= 0 && r < rank_.size);
  if (announcer_.failed() || piece.count == 0) return;
  scatter(staging_.of(r, slot, piece.window), at, piece.count);
}

void SegmentedMemory::copy_result(int r, int slot, const Piece& piece) {
  copy(r, slot, piece, piece.at);
}

void SegmentedMemory::copy_own(std::uint64_t from, std::uint64_t at, std::uint64_t count) {
  if (announcer_.failed() || count == 0) return;
  const Segments::Part first = segments_.part(at, count);
  segments_.for_each(from, count, [&](const Segments::Part& part, std::size_t) {
    Segments::Part target = part;
    target.block = first.block;
    std::byte* to = segments_.output(target);
    if (to != segments_.input(part)) std::memmove(to, segments_.input(part), part.count * element_);
  });
}

}  // namespace rondo::host
