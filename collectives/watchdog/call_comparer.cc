// SPDX-License-Identifier: Apache-2.0
#include "collectives/watchdog/call_comparer.h"

#include <algorithm>
#include <cassert>

#include "collectives/faults/fault_texts.h"
#include "collectives/faults/peer_words.h"

namespace rondo {
namespace {

// Counts of the grouped calls in a rank's call `sequence`; empty if its list was overwritten.
std::vector<std::uint64_t> counts_of(const CallRecord& record, const GroupList& list,
                                     std::uint64_t sequence) {
  if (!record.fused()) return {record.count};
  std::vector<std::uint64_t> counts;
  if (HostAtomics::load_acquire(list.sequence) != sequence) return counts;
  const std::uint32_t calls =
      std::min<std::uint32_t>(HostAtomics::load_relaxed(list.calls), kMaxGrouped);
  for (std::uint32_t i = 0; i < calls; ++i)
    counts.push_back(HostAtomics::load_relaxed(list.counts[i]));
  HostAtomics::fence_seq_cst();
  if (HostAtomics::load_relaxed(list.sequence) != sequence) counts.clear();
  return counts;
}

// Text for the first call that differs: a single call, or call `at` of a group.
std::string called(const CallRecord& record, const std::vector<std::uint64_t>& counts,
                   std::size_t at) {
  if (!record.fused()) return to_string(record) + (at > 0 ? " alone" : "");
  if (counts.empty()) return to_string(record);
  CallRecord single = record;
  if (at >= counts.size()) {
    single.count = counts.back();
    return fmt::format("{} as the last of {} grouped calls", to_string(single), counts.size());
  }
  single.count = counts[at];
  return fmt::format("{} as number {} of {} grouped calls", to_string(single), at + 1,
                     counts.size());
}

}  // namespace

bool CallComparer::check() {
  // Messages are not announced: the newest announcement is the collective before them.
  if (call_.record.collective == Collective::kNone || is_message(call_.record)) return false;
  for (int r = 0; r < host_.size; ++r) {
    const AnnounceLine& line = host_.peers[r].announcements[host_.sequence % kAnnounceDepth];
    if (r == host_.rank || HostAtomics::load_acquire(line.sequence) != host_.sequence) continue;
    const CallRecord theirs = line.record;
    if (theirs == call_.record) continue;
    on_mismatch(members_.local_ranks[r], call_.record, theirs);
    return true;
  }
  return false;
}

void CallComparer::on_mismatch(int peer, const CallRecord& mine, const CallRecord& theirs,
                               std::uint64_t number) {
  assert(peer >= 0 && peer < members_.size && peer != members_.rank);
  std::uint64_t sequence = host_.sequence;
  CallRecord here = mine, there = theirs;
  if (number != 0 && number < sequence) {  // data of an earlier call that was not consumed
    const AnnounceLine& line = host_.self().announcements[number % kAnnounceDepth];
    if (HostAtomics::load_relaxed(line.sequence) == number) {
      sequence = number;
      here = load_record(line.record);
    }
  }
  if (sequence != host_.sequence) return raise_at(sequence, peer, here, there);
  if (!is_message(mine)) find_first(members_.local_of(peer), &sequence, &here, &there);
  raise_at(sequence, peer, here, there);
}

void CallComparer::raise_at(std::uint64_t sequence, int peer, const CallRecord& here,
                            const CallRecord& there) {
  const int local = members_.local_of(peer);
  const auto bytes = [](const CallRecord& record) { return record.count * size_of(record.type); };
  std::string text;
  if (is_message(here) && is_message(there) && here.collective != there.collective &&
      bytes(here) != bytes(there)) {
    text = fault_texts::different_sizes(members_.rank, here, peer, there);
  } else if (here == there) {
    const std::string when = local >= 0 ? fmt::format("more than {} calls ago", kAnnounceDepth)
                                        : fmt::format("before call {}", sequence);
    text = fault_texts::different_calls_before(when, members_.rank, peer);
  } else {
    const std::string which = is_message(here) ? "" : fmt::format("in call {}, ", sequence);
    std::vector<std::uint64_t> ours = counts_of(here, *host_.self().group, sequence), others;
    if (local >= 0) others = counts_of(there, *host_.peers[local].group, sequence);
    std::size_t at = 0;
    CallRecord alike = there;
    alike.count = here.count;
    if (alike == here)
      while (at < ours.size() && at < others.size() && ours[at] == others[at]) ++at;
    text = fault_texts::different_calls(which, {members_.rank, called(here, ours, at)},
                                        {peer, called(there, others, at)},
                                        here.fused() || there.fused());
  }
  Fault mismatch = faults_.make(StatusCode::kInvalidUsage, peer, std::move(text));
  mismatch.sequence = sequence;
  mismatch.own = here;
  mismatch.other = there;
  faults_.raise(std::move(mismatch));
}

// Finds the oldest call that both rings still hold and in which this rank and the peer differ.
void CallComparer::find_first(int local, std::uint64_t* sequence, CallRecord* mine,
                              CallRecord* theirs) const {
  assert(local < host_.size && local != host_.rank);
  const std::uint64_t newest = host_.sequence;
  const std::uint64_t oldest = newest >= kAnnounceDepth ? newest - kAnnounceDepth + 1 : 1;
  for (std::uint64_t q = oldest; local >= 0 && q <= newest; ++q) {
    const AnnounceLine& here = host_.self().announcements[q % kAnnounceDepth];
    const AnnounceLine& there = host_.peers[local].announcements[q % kAnnounceDepth];
    if (HostAtomics::load_acquire(here.sequence) != q ||
        HostAtomics::load_acquire(there.sequence) != q)
      continue;
    const CallRecord own = load_record(here.record), other = load_record(there.record);
    if (own == other || HostAtomics::load_acquire(there.sequence) != q) continue;
    *sequence = q;
    *mine = own;
    *theirs = other;
    return;
  }
}

}  // namespace rondo
