// The messages of a StatusTree as bytes. Reading believes nothing: what no rank can have sent ends
// the message. Cost: 168 bytes a rank, and 24 a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collectives/watchdog/status_tree.h"
#include "transport/net/remote_links.h"

namespace rondo::gpu {

struct StatusHead {
  std::uint64_t kind = 0;    // kStandingMessage or kStandingAnswer, in its first byte
  std::uint64_t number = 0;  // of the sender's messages; 0: it wants no answer
};

inline constexpr std::size_t kMaxStatusBytes = RemoteLinks::kMaxControlBytes;
inline constexpr std::size_t kNoRoomForItem = ~std::size_t{0};

std::vector<std::byte> status_message(std::uint8_t kind, std::uint64_t number);
void number_status_message(std::uint64_t number, std::vector<std::byte>* message);

// As many of its calls as there is room for: how many these were; kNoRoomForItem: the item itself
// has none. max_bytes: of the message; 0: the item and no calls, whatever that takes.
std::size_t append_status_item(const StatusItem& item, std::size_t max_bytes,
                               std::vector<std::byte>* message);

std::optional<StatusHead> status_head_of(std::span<const std::byte> message);
// Takes it from the front of `items`; nothing: it is the end, or cannot be read. Ranks lie in
// 0..ranks-1.
std::optional<StatusItem> next_status_item(std::span<const std::byte>* items, int ranks);

}  // namespace rondo::gpu
