#include "collectives/gpu/launch/message_launches.h"

#include <algorithm>
#include <tuple>

namespace rondo::gpu {
namespace {

constexpr std::uint64_t kAlignment = 128;
constexpr unsigned kWarp = 32;
// Below that a channel's slots are not worth its start: then a pair has fewer channels.
constexpr std::uint64_t kLeastSlot = 32 << 10;
constexpr std::uint64_t kBytesPerThread = 64;  // that keep it busy: 4 vectors of 16 bytes

std::uint64_t rounded(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// What one channel moves of a message.
struct Part {
  int distance, from, channel;
  const MessageMove* of;
  std::uint64_t at, bytes;

  bool copies() const { return of->send != nullptr && of->receive != nullptr; }
  bool sends() const { return of->send != nullptr; }
  int rank() const { return sends() ? of->from : of->to; }  // on this device
  int end() const {
    return sends() ? cuda::message_end(of->to, cuda::kOutgoing, channel)
                   : cuda::message_end(of->from, cuda::kIncoming, channel);
  }
  bool shares_end(const Part& other) const {
    return !copies() && !other.copies() && rank() == other.rank() && end() == other.end();
  }
};

std::vector<Part> cut(std::span<const MessageMove> moves, int ranks) {
  std::vector<Part> parts;
  for (const MessageMove& move : moves) {
    if (move.bytes == 0) continue;
    const std::uint64_t half = move.shape.slot_bytes * cuda::kMessageChannelSlots / 2;
    const std::uint64_t channels = std::clamp<std::uint64_t>(
        move.bytes / half, 1, static_cast<std::uint64_t>(move.shape.channels));
    const std::uint64_t each = rounded((move.bytes + channels - 1) / channels);
    const int distance = (move.to - move.from + ranks) % ranks;
    int channel = 0;
    for (std::uint64_t at = 0; at < move.bytes; at += each)
      parts.push_back({distance, move.from, channel++, &move, at, std::min(each, move.bytes - at)});
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return std::tie(a.distance, a.from, a.channel) < std::tie(b.distance, b.from, b.channel);
  });
  return parts;
}

// The parts of one launch, to CTAs. Those of an end stay together, in order.
MessageLaunch deal(std::span<const Part> parts, std::vector<int> ranks, int most_ctas) {
  MessageLaunch launch{};
  launch.ranks = std::move(ranks);
  std::vector<int> list_of;  // by part: number of its end among those that send, or do not
  int lists[2] = {0, 0};
  std::uint64_t longest = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool goes_on = i > 0 && parts[i].shares_end(parts[i - 1]);
    list_of.push_back(goes_on ? list_of.back() : lists[parts[i].sends()]++);
    longest = std::max(longest, parts[i].bytes);
  }
  const int all = lists[0] + lists[1], most = std::min(most_ctas, cuda::kMostMessageCtas);
  int ctas[2] = {lists[0], lists[1]};
  if (all > most && most > 1) {
    ctas[0] = lists[0] == 0 ? 0 : std::clamp(most * lists[0] / all, 1, most - (lists[1] > 0));
    ctas[1] = lists[1] == 0 ? 0 : most - ctas[0];
  }
  launch.ctas = std::min(all, most);
  std::vector<int> cta_of;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool sends = parts[i].sends();
    cta_of.push_back(most == 1 ? 0 : (sends ? ctas[0] : 0) + list_of[i] % ctas[sends]);
  }
  int next = 0;
  for (int cta = 0; cta < launch.ctas; ++cta) {
    launch.args.first[cta] = static_cast<std::uint8_t>(next);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (cta_of[i] != cta) continue;
      const Part& part = parts[i];
      cuda::MessageArgs::Item& item = launch.args.item[next++];
      if (part.of->send != nullptr)
        item.from = static_cast<const std::byte*>(part.of->send) + part.at;
      if (part.of->receive != nullptr)
        item.to = static_cast<std::byte*>(part.of->receive) + part.at;
      item.bytes = part.bytes;
      item.end = static_cast<std::uint16_t>(part.end());
      item.station = static_cast<std::uint16_t>(
          std::find(launch.ranks.begin(), launch.ranks.end(), part.rank()) - launch.ranks.begin());
    }
  }
  launch.args.first[launch.ctas] = static_cast<std::uint8_t>(next);
  constexpr std::uint64_t kService = cuda::kServiceWarps * kWarp;
  const std::uint64_t workers = (longest / kBytesPerThread + kWarp - 1) / kWarp;
  launch.threads =
      static_cast<unsigned>(kService + std::clamp<std::uint64_t>(workers * kWarp, kWarp,
                                                                 cuda::kMessageThreads - kService));
  return launch;
}

}  // namespace

MessageShape message_shape(std::uint64_t bytes) {
  constexpr std::uint64_t kSlots = cuda::kMessageChannelSlots;
  MessageShape shape;
  shape.channels = static_cast<int>(
      std::clamp<std::uint64_t>(bytes / kSlots / kLeastSlot, 1, cuda::kMessageChannels));
  const std::uint64_t each = bytes / kSlots / static_cast<std::uint64_t>(shape.channels);
  shape.slot_bytes = std::min(cuda::kMessageSlotBytes, each / kAlignment * kAlignment);
  return shape;
}

// A launch ends where a distance would not fit as a whole, if it fits into the next one: else one
// direction of it would wait for the other.
std::vector<MessageLaunch> plan_message_launches(std::span<const MessageMove> moves, int ranks,
                                                 int most_ctas) {
  const std::vector<Part> parts = cut(moves, ranks);
  std::vector<MessageLaunch> launches;
  std::vector<int> stations;
  std::size_t first = 0;
  const auto end_at = [&](std::size_t next) {
    if (next > first)
      launches.push_back(deal({&parts[first], next - first}, std::move(stations), most_ctas));
    stations.clear();
    first = next;
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    constexpr std::size_t kMost = cuda::kMostMessageItems;
    std::size_t whole = 0;
    if (i == 0 || parts[i].distance != parts[i - 1].distance)
      while (i + whole < parts.size() && parts[i + whole].distance == parts[i].distance) ++whole;
    if (i - first == kMost || (whole <= kMost && i - first + whole > kMost)) end_at(i);
    if (std::find(stations.begin(), stations.end(), parts[i].rank()) == stations.end()) {
      if (stations.size() == cuda::kMostMessageStations) end_at(i);
      stations.push_back(parts[i].rank());
    }
  }
  end_at(parts.size());
  return launches;
}

}  // namespace rondo::gpu
