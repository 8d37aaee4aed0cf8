// Layout of a HostSegment's file: for HostSegment, which creates and maps it, and for SegmentView,
// which only reads it.
//
// The words of the ranks are first, and their offsets depend only on the number of ranks.
#pragma once

#include "transport/shm/host_segment.h"

namespace rondo::shm {

inline constexpr std::uint64_t kSegmentMagic = 0x316f646e6f72ULL;  // "rondo1"
inline constexpr std::size_t kSegmentPage = 4096;

inline constexpr std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

struct SegmentHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t ranks;
  std::uint64_t total_bytes;
};

// The words of one rank. Its flag bytes are elsewhere, adjacent to those of the other ranks.
struct RankWords {
  AnnounceLine announcements[kAnnounceDepth];
  BesideLines beside[kAnnounceDepth];
  StepLine steps;
  ProgressLine progress;
  FaultSlot fault;
  GroupList group;
  IdentityLine identity;
  alignas(kLineBytes) std::uint32_t bell;
};

struct ConnectionWords {
  alignas(kLineBytes) std::uint64_t tail;
  alignas(kLineBytes) std::uint64_t head;
};

// Byte offsets of everything in a segment.
struct SegmentLayout {
  explicit SegmentLayout(const SegmentShape& shape) : s(shape) {
    const auto ranks = static_cast<std::size_t>(s.ranks);
    flags_each = round_up(ranks, kLineBytes);
    parked = kLineBytes;
    faulted = parked + flags_each;
    words = round_up(faulted + flags_each, kSegmentPage);
    words_each = round_up(sizeof(RankWords), kSegmentPage);
    signals = words + ranks * words_each;
    signals_each = ranks * kSignals * sizeof(std::uint64_t);
    staging = round_up(signals + ranks * signals_each, kSegmentPage);
    connections = staging + ranks * s.staging_bytes;
    records = round_up(sizeof(ConnectionWords), kLineBytes);
    used = records + s.slot_count * sizeof(CallRecord);
    slots = round_up(used + s.slot_count * sizeof(std::uint64_t), kSegmentPage);
    connection_each = slots + round_up(s.slot_count * s.slot_bytes, kSegmentPage);
    total = connections + ranks * ranks * HostSegment::kLanes * connection_each;
  }
  std::size_t connection(int from, int to, int lane) const {
    const std::size_t pair = static_cast<std::size_t>(to) * s.ranks + from;
    return connections + (pair * HostSegment::kLanes + lane) * connection_each;
  }

  // The words that rank `index` publishes, in a mapping that begins at `base`.
  PeerPort words_of(std::byte* base, int index) const {
    const auto i = static_cast<std::size_t>(index);
    auto* own = reinterpret_cast<RankWords*>(base + words + i * words_each);
    PeerPort port{};
    port.announcements = own->announcements;
    port.beside = own->beside;
    port.steps = &own->steps;
    port.progress = &own->progress;
    port.fault = &own->fault;
    port.group = &own->group;
    port.identity = &own->identity;
    port.bell = &own->bell;
    port.signals = reinterpret_cast<std::uint64_t*>(base + signals + i * signals_each);
    port.parked = reinterpret_cast<std::uint8_t*>(base + parked + i);
    port.faulted = reinterpret_cast<std::uint8_t*>(base + faulted + i);
    return port;
  }

  SegmentShape s;
  std::size_t flags_each, parked, faulted, words, words_each, signals, signals_each, staging,
      connections, records, used, slots, connection_each, total;
};

}  // namespace rondo::shm
