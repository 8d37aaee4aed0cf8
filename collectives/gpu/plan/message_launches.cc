// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/plan/message_launches.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

namespace rondo::gpu {
namespace {

constexpr std::uint64_t kLineBytes = 128;
constexpr unsigned kWarpOfMessages = 32;
constexpr std::uint64_t kMessageBytesPerThread = 64;  // keep it busy: 4 vectors of 16 bytes

std::uint64_t whole_lines(std::uint64_t bytes) {
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

// The part of a message that one channel moves.
struct Part {
  int distance, from, channel;
  const MessageMove* of;
  std::uint64_t at, bytes;

  bool copies() const { return of->send != nullptr && of->receive != nullptr; }
  bool sends() const { return of->send != nullptr; }
  std::size_t items() const { return copies() ? 2 : 1; }
  int rank() const { return sends() ? of->from : of->to; }  // on this device
  int target() const { return copies() ? of->to : rank(); }
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
    const std::uint64_t each = whole_lines((move.bytes + channels - 1) / channels);
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

// Parts with different waits have separate CTAs: by direction, and by whether they are over a
// network. With too few CTAs for all four kinds only the direction counts; with one CTA nothing
// does.
constexpr int kKinds = 4;
using OfKinds = std::array<int, kKinds>;
int kind_of(const Part& part, int max_ctas) {
  if (max_ctas == 1) return 0;
  const bool apart = max_ctas >= kKinds && part.of->shape.over_network;
  return (part.sends() ? 1 : 0) + (apart ? 2 : 0);
}

// Number of CTAs for the lists of each kind: one per list, or else in proportion.
OfKinds share_ctas(const OfKinds& lists, int maximum) {
  if (std::accumulate(lists.begin(), lists.end(), 0) <= maximum) return lists;
  OfKinds ctas{};
  for (int kind = 0; kind < kKinds; ++kind) ctas[kind] = lists[kind] > 0 ? 1 : 0;
  const auto is_fuller = [&](int a, int b) { return lists[a] * ctas[b] > lists[b] * ctas[a]; };
  for (int left = maximum - std::accumulate(ctas.begin(), ctas.end(), 0); left > 0; --left) {
    int fullest = 0;
    for (int kind = 1; kind < kKinds; ++kind)
      if (ctas[fullest] == 0 || (ctas[kind] > 0 && is_fuller(kind, fullest))) fullest = kind;
    ++ctas[fullest];
  }
  return ctas;
}

// Assigns the parts of one launch to CTAs. Parts of one end stay together, in order.
MessageLaunch deal(std::span<const Part> parts, std::vector<int> ranks, int max_ctas) {
  MessageLaunch launch{};
  launch.ranks = std::move(ranks);
  const int maximum = std::min(max_ctas, cuda::kMaxMessageCtas);
  std::vector<int> list_of;  // by part: index of its end within its kind
  OfKinds lists{};
  std::uint64_t longest = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool goes_on = i > 0 && parts[i].shares_end(parts[i - 1]);
    list_of.push_back(goes_on ? list_of.back() : lists[kind_of(parts[i], maximum)]++);
    longest = std::max(longest, parts[i].bytes);
  }
  const OfKinds ctas = share_ctas(lists, maximum);
  launch.ctas = std::accumulate(ctas.begin(), ctas.end(), 0);
  std::vector<int> cta_of;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int kind = kind_of(parts[i], maximum);
    cta_of.push_back(std::accumulate(ctas.begin(), ctas.begin() + kind, 0) +
                     list_of[i] % ctas[kind]);
  }
  int next = 0;
  for (int cta = 0; cta < launch.ctas; ++cta) {
    launch.args.first[cta] = static_cast<std::uint8_t>(next);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (cta_of[i] != cta) continue;
      const Part& part = parts[i];
      const auto add = [&](int rank, const void* buffer, std::uint64_t bytes) {
        const auto station =
            std::find(launch.ranks.begin(), launch.ranks.end(), rank) - launch.ranks.begin();
        launch.args.at[next] = static_cast<const std::byte*>(buffer) + part.at;
        launch.args.bytes[next] = bytes;
        launch.args.end[next] =
            part.copies() ? cuda::MessageArgs::kCopy : static_cast<std::uint16_t>(part.end());
        launch.args.stations[next++] = static_cast<std::uint8_t>(station);
      };
      add(part.rank(), part.sends() ? part.of->send : part.of->receive, part.bytes);
      if (part.copies()) add(part.target(), part.of->receive, 0);
    }
  }
  launch.args.first[launch.ctas] = static_cast<std::uint8_t>(next);
  constexpr std::uint64_t kService = cuda::kServiceWarps * kWarpOfMessages;
  const std::uint64_t workers =
      (longest / kMessageBytesPerThread + kWarpOfMessages - 1) / kWarpOfMessages;
  launch.threads = static_cast<unsigned>(
      kService + std::clamp<std::uint64_t>(workers * kWarpOfMessages, kWarpOfMessages,
                                           cuda::kMessageThreads - kService));
  return launch;
}

}  // namespace

// A launch ends before a distance that does not fit as a whole, if that distance fits into the next
// launch. Otherwise one direction of it would wait for the other.
std::vector<MessageLaunch> plan_message_launches(std::span<const MessageMove> moves, int ranks,
                                                 int max_ctas) {
  const std::vector<Part> parts = cut(moves, ranks);
  std::vector<MessageLaunch> launches;
  std::vector<int> stations;
  std::size_t first = 0, items = 0;
  const auto end_at = [&](std::size_t next) {
    if (next > first)
      launches.push_back(deal({&parts[first], next - first}, std::move(stations), max_ctas));
    stations.clear();
    first = next;
    items = 0;
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    constexpr std::size_t kMax = cuda::kMaxMessageItems;
    std::size_t whole = 0;
    if (i == 0 || parts[i].distance != parts[i - 1].distance)
      for (std::size_t j = i; j < parts.size() && parts[j].distance == parts[i].distance; ++j)
        whole += parts[j].items();
    if (items + parts[i].items() > kMax || (whole <= kMax && items + whole > kMax)) end_at(i);
    const auto lacks = [&](int rank) {
      return std::find(stations.begin(), stations.end(), rank) == stations.end();
    };
    const std::size_t more = (lacks(parts[i].rank()) ? 1u : 0u) +
                             (parts[i].target() != parts[i].rank() && lacks(parts[i].target()));
    if (stations.size() + more > cuda::kMaxMessageStations) end_at(i);
    for (const int rank : {parts[i].rank(), parts[i].target()})
      if (lacks(rank)) stations.push_back(rank);
    items += parts[i].items();
  }
  end_at(parts.size());
  return launches;
}

}  // namespace rondo::gpu
