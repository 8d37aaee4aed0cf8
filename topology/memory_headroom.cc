// SPDX-License-Identifier: Apache-2.0
#include "topology/memory_headroom.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "topology/cpu_budget.h"
#include "topology/small_file.h"

namespace rondo::topology {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
constexpr std::int64_t kNoLimitInV1 = std::int64_t{1} << 60;  // v1 without a limit reports more

// "name 123" in memory.stat.
std::uint64_t value_of(std::string_view text, std::string_view name) {
  std::uint64_t value = 0;
  for_each_line(text, [&](std::string_view line) {
    if (take_until(line, ' ') != name) return true;
    for (const char digit : line)
      if (digit >= '0' && digit <= '9')
        value = value * 10 + static_cast<std::uint64_t>(digit - '0');
    return false;
  });
  return value;
}

std::uint64_t difference(std::int64_t limit, std::int64_t used) {
  return limit > used ? static_cast<std::uint64_t>(limit - used) : 0;
}

std::uint64_t headroom_of(const CgroupFolder& folder, const std::string& root) {
  const auto number = [&](const char* file) { return read_number(folder.path + "/" + file); };
  const auto limit = number(folder.v2 ? "memory.max" : "memory.limit_in_bytes");
  const auto used = number(folder.v2 ? "memory.current" : "memory.usage_in_bytes");
  if (!limit || !used || *limit >= kNoLimitInV1) return kUnlimited;
  std::uint64_t room = difference(*limit, *used);
  const auto counts = read_small_file(folder.path + "/memory.stat");
  const std::string prefix = folder.v2 ? "" : "total_";
  if (counts)
    room += value_of(*counts, prefix + "active_file") +
            value_of(*counts, prefix + "inactive_file") + value_of(*counts, "slab_reclaimable");
  const auto machine = read_small_file(root + "/proc/meminfo");
  const std::uint64_t swap = machine ? value_of(*machine, "SwapFree:") * 1024 : 0;
  if (swap == 0) return room;
  if (folder.v2) {
    const auto maximum = number("memory.swap.max"), now = number("memory.swap.current");
    return room + (maximum && now ? std::min(swap, difference(*maximum, *now)) : swap);
  }
  const auto both = number("memory.memsw.limit_in_bytes");
  const auto now = number("memory.memsw.usage_in_bytes");
  return room + (both && now ? std::min(swap, difference(*both, *now)) : swap);
}

}  // namespace

std::uint64_t memory_headroom(const std::string& root) {
  std::uint64_t minimum = kUnlimited;
  for (const CgroupFolder& folder : cgroup_folders("memory", "self", root))
    minimum = std::min(minimum, headroom_of(folder, root));
  return minimum;
}

std::optional<std::uint64_t> HeadroomReadings::lacks_room_for(std::uint64_t bytes,
                                                              std::int64_t now) {
  constexpr std::int64_t kServes = 1'000'000'000;
  constexpr std::uint64_t kPart = 16;
  std::uint64_t left = now < until_.load(std::memory_order_acquire) ? left_.load() : 0;
  while (left >= bytes && left > 0)
    if (left_.compare_exchange_weak(left, left - bytes)) return std::nullopt;
  const std::uint64_t room = memory_headroom(root_);
  if (bytes > room) return room;
  left_.store(room / kPart > bytes ? room / kPart - bytes : 0);
  until_.store(now + kServes, std::memory_order_release);
  return std::nullopt;
}

}  // namespace rondo::topology
