// SPDX-License-Identifier: Apache-2.0
#include "api/part_overlap.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace rondo::api {

void PartRanges::add(int part, const void* at, std::size_t bytes, bool received) {
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  if (bytes > 0) ranges_.push_back({begin, begin + bytes, part, received});
}

// True if one buffer ends before the other one begins, and the received parts ascend.
bool PartRanges::surely_apart() const {
  struct Hull {
    std::uintptr_t begin = std::numeric_limits<std::uintptr_t>::max(), end = 0;
  };
  Hull sent, received;
  for (const Range& range : ranges_) {
    if (range.received && range.begin < received.end) return false;
    Hull& hull = range.received ? received : sent;
    hull = {std::min(hull.begin, range.begin), std::max(hull.end, range.end)};
  }
  return sent.end <= received.begin || received.end <= sent.begin;
}

Status check_parts_apart(PartRanges ranges, const char* function) {
  if (ranges.surely_apart()) return ok_status();
  auto& all = ranges.ranges_;
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  const PartRanges::Range* reaches[2] = {nullptr, nullptr};  // the furthest sent, received so far
  const auto name = [](const auto& range) {
    return fmt::format("part {} of {} ({})", range.part, range.received ? "recvbuff" : "sendbuff",
                       reinterpret_cast<const void*>(range.begin));
  };
  for (const auto& range : all) {
    for (const auto* before : reaches) {
      if (before == nullptr || before->end <= range.begin) continue;
      if (!before->received && !range.received) continue;
      return fail(StatusCode::kInvalidArgument, "{} : {} and {} overlap; {}", function,
                  name(before->received ? range : *before),
                  name(before->received ? *before : range),
                  before->received && range.received
                      ? "give each part memory of its own"
                      : "this call does not work in place: give other memory");
    }
    const PartRanges::Range*& reach = reaches[range.received ? 1 : 0];
    if (reach == nullptr || reach->end < range.end) reach = &range;
  }
  return ok_status();
}

}  // namespace rondo::api
