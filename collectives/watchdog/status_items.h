// Messages of a StatusTree as bytes. Readers validate their input: an item that no rank can have
// sent ends the message. Cost: 168 bytes per rank and 24 per call.
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
  std::uint64_t kind = 0;    // kStandingMessage or kStandingAnswer, in the first byte
  std::uint64_t number = 0;  // number of the sender's message; 0: no answer wanted
};

inline constexpr std::size_t kMaxStatusBytes = RemoteLinks::kMaxControlBytes;
inline constexpr std::size_t kNoRoomForItem = ~std::size_t{0};

std::vector<std::byte> status_message(std::uint8_t kind, std::uint64_t number);
void number_status_message(std::uint64_t number, std::vector<std::byte>* message);

// Appends the item with as many of its calls as fit, and returns their number; kNoRoomForItem: the
// item itself does not fit. max_bytes: limit of the message; 0: append the item without calls,
// without limit.
std::size_t append_status_item(const StatusItem& item, std::size_t max_bytes,
                               std::vector<std::byte>* message);

std::optional<StatusHead> status_head_of(std::span<const std::byte> message);
// Removes the first item of `items`; nothing at the end or if it cannot be read. Its ranks are in
// 0..ranks-1.
std::optional<StatusItem> next_status_item(std::span<const std::byte>* items, int ranks);

}  // namespace rondo::gpu
