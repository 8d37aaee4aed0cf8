#include "collectives/watchdog/status_items.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "collectives/watchdog/fault_message.h"

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
static_assert(sizeof(ItemOnWire) == 168);

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
  std::memcpy(message->data() + offsetof(StatusHead, number), &number, sizeof(number));
}

std::size_t append_status_item(const StatusItem& item, std::size_t max_bytes,
                               std::vector<std::byte>* message) {
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

}  // namespace rondo::gpu
