// SPDX-License-Identifier: Apache-2.0
#include "collectives/faults/message_notes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/faults/fault.h"
#include "collectives/faults/fault_texts.h"

namespace rondo::gpu {
namespace {

struct NotesHead {
  std::uint64_t kind = kMessagesNote;  // in the first byte
  std::uint64_t first = 0;             // number of the first record; the records follow
};

}  // namespace

void MessageNotes::announce(int from, int to, const CallRecord& record, bool captured) {
  const std::lock_guard lock(mutex_);
  bool& stopped = from == rank_ ? unsent_[to].stopped : of_sender_[from].stopped;
  stopped = stopped || captured;
  if (stopped) return;
  if (from == rank_) return unsent_[to].records.push_back(record);
  OfSender& of = of_sender_[from];
  const std::uint64_t number = ++of.received;
  of.own[number % kDepth] = {number, record};
  compare(from, number);
}

std::optional<MessageNotes::ToSend> MessageNotes::take(std::size_t max_bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(unsent_.begin(), unsent_.end(),
                                  [](const auto& one) { return !one.second.records.empty(); });
  if (found == unsent_.end()) return std::nullopt;
  auto& [peer, unsent] = *found;
  const std::size_t maximum = (max_bytes - sizeof(NotesHead)) / sizeof(CallRecord);
  const std::size_t count = std::min(maximum, unsent.records.size());
  const NotesHead head{kMessagesNote, unsent.sent + 1};
  ToSend made{peer, std::vector<std::byte>(sizeof(head) + count * sizeof(CallRecord))};
  std::memcpy(made.message.data(), &head, sizeof(head));
  std::memcpy(made.message.data() + sizeof(head), unsent.records.data(),
              count * sizeof(CallRecord));
  unsent.sent += count;
  unsent.records.erase(unsent.records.begin(),
                       unsent.records.begin() + static_cast<std::ptrdiff_t>(count));
  return made;
}

void MessageNotes::receive(int peer, std::span<const std::byte> message) {
  NotesHead head;
  if (message.size() < sizeof(head)) return;
  std::memcpy(&head, message.data(), sizeof(head));
  const std::span<const std::byte> records = message.subspan(sizeof(head));
  const std::lock_guard lock(mutex_);
  OfSender& of = of_sender_[peer];
  for (std::size_t i = 0; i < records.size() / sizeof(CallRecord); ++i) {
    const std::uint64_t number = head.first + i;
    Note& note = of.theirs[number % kDepth];
    note.number = number;
    std::memcpy(&note.record, records.data() + i * sizeof(CallRecord), sizeof(CallRecord));
    if (static_cast<int>(note.record.type) >= kDataTypes) return;
    compare(peer, number);
  }
}

// Compares only if both sides announced it and it is still in the ring.
void MessageNotes::compare(int sender, std::uint64_t number) {
  const OfSender& of = of_sender_[sender];
  const Note &own = of.own[number % kDepth], &theirs = of.theirs[number % kDepth];
  if (mismatch_ || own.number != number || theirs.number != number) return;
  std::string why = fault_texts::different_messages(rank_, own.record, sender, theirs.record);
  if (why.empty()) return;
  Fault& found = mismatch_.emplace();
  found.status = StatusCode::kInvalidUsage;
  found.rank = rank_;
  found.culprit = sender;
  found.own = own.record;
  found.other = theirs.record;
  found.text = std::move(why);
}

std::optional<Fault> MessageNotes::take_mismatch() {
  const std::lock_guard lock(mutex_);
  return std::exchange(mismatch_, std::nullopt);
}

}  // namespace rondo::gpu
