// SPDX-License-Identifier: Apache-2.0
#include "collectives/faults/status_tree.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "collectives/faults/fault.h"

namespace rondo::gpu {
namespace {

constexpr std::size_t kMaxAwaitedRanks = 8;  // awaited ranks in an item; any others are not sent

struct ItemOnWire {
  std::int32_t rank = -1;
  std::uint32_t presence = 0;
  std::uint64_t version = 0;
  std::uint32_t calls = 0;
  std::uint32_t has_progress = 0;
  double limit_seconds = 0;
  std::int32_t awaited[kMaxAwaitedRanks] = {-1, -1, -1, -1, -1, -1, -1, -1};
  Progress progress;
};
static_assert(sizeof(ItemOnWire) == 184);

std::optional<Wait> wait_in(const ItemOnWire& wire, int ranks) {
  Wait found{kMessageInWords, {}, std::isfinite(wire.limit_seconds) ? wire.limit_seconds : 0};
  for (const std::int32_t rank : wire.awaited)
    if (rank >= 0 && rank < ranks) found.awaited.push_back(rank);
  return found.awaited.empty() ? std::nullopt : std::optional<Wait>(std::move(found));
}

}  // namespace

std::vector<std::byte> status_message(std::uint8_t kind, std::uint64_t number) {
  const StatusHead head{kind, number};
  std::vector<std::byte> message(sizeof(head));
  std::memcpy(message.data(), &head, sizeof(head));
  return message;
}

void number_status_message(std::uint64_t number, std::vector<std::byte>* message) {
  assert(message->size() >= sizeof(StatusHead));
  std::memcpy(message->data() + offsetof(StatusHead, number), &number, sizeof(number));
}

std::size_t append_status_item(const StatusItem& item, std::size_t max_bytes,
                               std::vector<std::byte>* message) {
  assert(message->size() >= sizeof(StatusHead));
  const std::size_t used = message->size() + sizeof(ItemOnWire);
  if (max_bytes != 0 && used > max_bytes) return kNoRoomForItem;
  const std::size_t room = max_bytes == 0 ? 0 : (max_bytes - used) / sizeof(StatusItem::Call);
  const std::size_t calls = std::min(room, item.calls.size());
  ItemOnWire wire;
  wire.rank = item.rank;
  wire.presence = item.presence;
  wire.version = item.version;
  wire.calls = static_cast<std::uint32_t>(calls);
  if (item.progress) {
    wire.has_progress = 1;
    wire.progress = *item.progress;
  }
  if (item.wait) {
    wire.limit_seconds = item.wait->limit_seconds;
    const auto& awaited = item.wait->awaited;
    std::copy_n(awaited.begin(), std::min(kMaxAwaitedRanks, awaited.size()), wire.awaited);
  }
  const auto append = [&](const void* from, std::size_t bytes) {
    const auto* const begin = static_cast<const std::byte*>(from);
    message->insert(message->end(), begin, begin + bytes);
  };
  append(&wire, sizeof(wire));
  append(item.calls.data(), calls * sizeof(StatusItem::Call));
  return calls;
}

std::optional<StatusHead> status_head_of(std::span<const std::byte> message) {
  StatusHead head;
  if (message.size() < sizeof(head)) return std::nullopt;
  std::memcpy(&head, message.data(), sizeof(head));
  if (head.kind != kStandingMessage && head.kind != kStandingAnswer) return std::nullopt;
  return head;
}

std::optional<StatusItem> next_status_item(std::span<const std::byte>* items, int ranks) {
  ItemOnWire wire;
  if (items->size() < sizeof(wire)) return std::nullopt;
  std::memcpy(&wire, items->data(), sizeof(wire));
  const std::size_t bytes = wire.calls * sizeof(StatusItem::Call);
  if (wire.rank < 0 || wire.rank >= ranks || wire.presence > StatusItem::kLeft ||
      wire.has_progress > 1 || items->size() - sizeof(wire) < bytes)
    return std::nullopt;
  StatusItem item;
  item.rank = wire.rank;
  item.presence = static_cast<StatusItem::Presence>(wire.presence);
  if (wire.has_progress != 0) {
    item.progress = wire.progress;
    item.wait = wait_in(wire, ranks);
    item.version = wire.version;
  }
  item.calls.resize(wire.calls);
  if (bytes > 0) std::memcpy(item.calls.data(), items->data() + sizeof(wire), bytes);
  *items = items->subspan(sizeof(wire) + bytes);
  return item;
}

namespace {

constexpr std::int64_t kAskNs = 100'000'000;  // period of messages while a rank waits
constexpr std::int64_t kLongestTickNs = 50'000'000;
constexpr std::size_t kMaxUnderWay = 8;
constexpr std::size_t kMaxUnreportedCalls = 1024;  // per rank, not yet sent to the parent

void merge_news(StatusItem news, StatusItem* known) {
  assert(news.rank >= 0 && (known->rank < 0 || known->rank == news.rank));
  known->rank = news.rank;
  known->presence = std::max(known->presence, news.presence);
  if (news.progress) {
    known->progress = news.progress;
    known->wait = std::move(news.wait);
    known->version = news.version;
  }
  auto& calls = known->calls;
  calls.insert(calls.end(), news.calls.begin(), news.calls.end());
  if (calls.size() > kMaxUnreportedCalls)
    calls.erase(calls.begin(), calls.end() - kMaxUnreportedCalls);
}

}  // namespace

std::vector<int> StatusTree::ancestors_of(const HostShape& shape, int rank) {
  assert(rank >= 0 && static_cast<std::size_t>(rank) < shape.host.size());
  const auto first_of = [&](int host) {
    return shape.ranks[static_cast<std::size_t>(shape.first[static_cast<std::size_t>(host)])];
  };
  std::vector<int> found;
  int host = shape.host_of(rank);
  if (first_of(host) != rank) found.push_back(first_of(host));
  while (host > 0) found.push_back(first_of(host = (host - 1) / kHostFanout));
  return found;
}

std::vector<int> StatusTree::children_of(const HostShape& shape, int rank) {
  assert(rank >= 0 && static_cast<std::size_t>(rank) < shape.host.size());
  const int host = shape.host_of(rank);
  const auto begin = shape.ranks.begin() + shape.first[static_cast<std::size_t>(host)];
  if (*begin != rank) return {};
  std::vector<int> found(begin + 1,
                         shape.ranks.begin() + shape.first[static_cast<std::size_t>(host) + 1]);
  const int first = host * kHostFanout + 1;
  for (int h = first; h < std::min(first + kHostFanout, shape.hosts()); ++h)
    found.push_back(
        shape.ranks[static_cast<std::size_t>(shape.first[static_cast<std::size_t>(h)])]);
  return found;
}

bool StatusTree::is_above(int rank) const {
  return std::find(options_.ancestors.begin(), options_.ancestors.end(), rank) !=
         options_.ancestors.end();
}

void StatusTree::put(const Progress& progress, std::optional<Wait> wait, std::uint64_t first,
                     std::span<const CallRecord> calls) {
  StatusItem& known = below_[options_.rank].item;
  if (calls.empty() && known.progress == progress && known.wait == wait) return;
  StatusItem own{.rank = options_.rank};
  for (const CallRecord& call : calls) own.calls.push_back({first++, call});
  own.progress = progress;
  own.wait = std::move(wait);
  own.version = known.version + 1;
  if (options_.rank == 0) return void(known = std::move(own));
  note(std::move(own));
}

void StatusTree::note(StatusItem item) {
  assert(item.rank >= 0 && item.rank < options_.ranks);
  Below& below = below_[item.rank];
  if (item.version < below.item.version) {  // an older report that arrived by another path
    item.progress.reset();
    item.wait.reset();
  }
  if (options_.rank == 0) {
    below.item.version = std::max(below.item.version, item.version);
    return options_.deliver(item);
  }
  drop_known_calls(&item);
  merge_news(std::move(item), &below.item);
  below.is_new = true;
}

void StatusTree::drop_known_calls(StatusItem* item) {
  std::erase_if(item->calls, [&](const StatusItem::Call& call) {
    CallWindow::Entry before;
    const auto verdict = calls_.compare({call.number, item->rank, call.record}, &before);
    return verdict == CallWindow::kSame || verdict == CallWindow::kPast;
  });
}

void StatusTree::receive(int peer, std::span<const std::byte> message) {
  const auto head = status_head_of(message);
  if (!head) return;
  if (head->kind == kStandingAnswer) {
    if (peer == parent()) receive_answer(head->number);
    return;
  }
  if (!is_above(peer)) {
    const bool is_new = children_.insert(peer).second;
    if (is_new && !reported_.empty()) options_.send(peer, reported_);
    if (head->number != 0) unanswered_[peer] = head->number;
  }
  receive_items(peer, message.subspan(sizeof(StatusHead)));
}

void StatusTree::receive_items(int peer, std::span<const std::byte> items) {
  while (auto item = next_status_item(&items, options_.ranks)) {
    if (item->rank == options_.rank) continue;  // this rank's own state is newer
    if (is_above(peer)) {
      receive_from_above(*item);
      continue;
    }
    if (item->rank == peer && item->presence == StatusItem::kLeft) {
      children_.erase(peer);
      unanswered_.erase(peer);
    }
    note(std::move(*item));
  }
}

void StatusTree::receive_from_above(const StatusItem& item) {
  if (item.presence == StatusItem::kThere || !is_above(item.rank)) return;
  if (!gone_.insert(item.rank).second) return;
  if (item.presence == StatusItem::kEnded && ended_first_ < 0) ended_first_ = item.rank;
  item.rank == 0 ? announce_end_of_rank_0(item) : note(item);  // its receivers may be gone, too
}

// Reports it to this rank and the ranks below, together with the end that came before it.
void StatusTree::announce_end_of_rank_0(const StatusItem& item) {
  StatusItem first = item;
  if (item.presence == StatusItem::kEnded) first.rank = ended_first_;
  options_.deliver(first);
  std::vector<std::byte> message = status_message(kStandingMessage, 0);
  if (first.rank != 0) append_status_item(first, 0, &message);
  append_status_item(item, 0, &message);
  for (const int child : children_) options_.send(child, message);
}

void StatusTree::receive_answer(std::uint64_t number) {
  ended_first_ = -1;  // the parent knows this rank and will send what ends all ranks
  while (!under_way_.empty() && under_way_.front().number <= number) under_way_.pop_front();
  waits_since_ns_ = now_ns_;
}

void StatusTree::tick(std::int64_t now_ns, bool waits) {
  if (ticked_at_ns_ != 0) now_ns_ += std::min(now_ns - ticked_at_ns_, kLongestTickNs);
  ticked_at_ns_ = now_ns;
  look_for_ends();
  look_for_silence();
  answer();
  if (is_orphan() || (has_begun_ && now_ns_ - sent_at_ns_ < kReportNs)) return;
  send_news(kMaxUnderWay);
  if (waits && under_way_.empty() && now_ns_ - sent_at_ns_ >= kAskNs)
    send_up(status_message(kStandingMessage, 0));
}

void StatusTree::look_for_ends() {
  const auto ended = [](int rank) {
    return StatusItem{.rank = rank, .presence = StatusItem::kEnded};
  };
  for (auto child = children_.begin(); child != children_.end();) {
    if (!options_.has_ended(*child)) {
      ++child;
      continue;
    }
    note(ended(*child));
    unanswered_.erase(*child);
    child = children_.erase(child);
  }
  while (!is_orphan()) {
    const int above = parent();
    const bool known = gone_.contains(above);
    if (!known && !options_.has_ended(above)) return;
    turn_to_next_parent();
    if (known) continue;
    gone_.insert(above);
    if (ended_first_ < 0) ended_first_ = above;
    above == 0 ? announce_end_of_rank_0(ended(above)) : note(ended(above));
  }
}

void StatusTree::look_for_silence() {
  const bool may_turn = at_ + 1 < options_.ancestors.size();
  if (!may_turn || under_way_.empty() || now_ns_ - waits_since_ns_ < kSilentNs) return;
  turn_to_next_parent();
}

// Sends all that is known here again: it is unknown what the previous parent forwarded.
void StatusTree::turn_to_next_parent() {
  assert(!is_orphan());
  ++at_;
  waits_since_ns_ = now_ns_;
  std::deque<UnderWay> again;
  again.swap(under_way_);
  if (is_orphan()) return;
  if (!reported_.empty()) options_.send(parent(), reported_);
  for (UnderWay& one : again) send_up(std::move(one.message));
  for (auto& [rank, below] : below_) below.is_new = true;
}

void StatusTree::answer() {
  for (const auto& [child, number] : unanswered_)
    options_.send(child, status_message(kStandingAnswer, number));
  unanswered_.clear();
}

void StatusTree::send_news(std::size_t max_under_way) {
  std::vector<std::byte> message = status_message(kStandingMessage, 0);
  const std::size_t empty = message.size();
  const auto flush = [&] {
    if (message.size() == empty) return;
    send_up(std::move(message));
    message = status_message(kStandingMessage, 0);
  };
  for (auto& [rank, below] : below_) {
    while (below.is_new && under_way_.size() < max_under_way) {
      StatusItem& item = below.item;
      const std::size_t sent = append_status_item(item, kMaxStatusBytes, &message);
      if (sent == kNoRoomForItem) {
        flush();
        continue;
      }
      item.calls.erase(item.calls.begin(), item.calls.begin() + static_cast<std::ptrdiff_t>(sent));
      below.is_new = !item.calls.empty();
    }
  }
  flush();
}

void StatusTree::send_up(std::vector<std::byte> message) {
  assert(!is_orphan());
  number_status_message(++sent_, &message);
  if (under_way_.empty()) waits_since_ns_ = now_ns_;
  sent_at_ns_ = now_ns_;
  has_begun_ = true;
  options_.send(parent(), message);
  under_way_.push_back({sent_, std::move(message)});
}

void StatusTree::report_fault(std::vector<std::byte> message) {
  assert(!message.empty());
  if (!reported_.empty()) return;
  reported_ = std::move(message);
  for (const int child : children_) options_.send(child, reported_);
  if (is_orphan()) return;
  options_.send(parent(), reported_);
  send_up(status_message(kStandingMessage, 0));  // its answer shows that the parent is alive
}

void StatusTree::leave() {
  StatusItem own{.rank = options_.rank, .presence = StatusItem::kLeft};
  const StatusItem& known = below_[options_.rank].item;
  own.progress = known.progress;
  own.version = known.version;
  std::vector<std::byte> message = status_message(kStandingMessage, 0);
  append_status_item(own, 0, &message);
  for (const int child : children_) options_.send(child, message);
  if (is_orphan()) return;
  own.progress.reset();
  note(std::move(own));
  send_news(~std::size_t{0});
}

}  // namespace rondo::gpu
