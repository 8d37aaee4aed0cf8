// CpuList: the kernel's numbers of logical CPUs, ascending, without duplicates; and the text form
// that /sys, taskset and cpusets use ("0-3,8").
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::topology {

using CpuList = std::vector<int>;

// Higher numbers are rejected as invalid.
inline constexpr int kMaxCpu = (1 << 16) - 1;

std::string to_text(const CpuList& cpus);  // "": empty list

// nullopt if the text is not such a list; "" and "\n" are the empty list.
std::optional<CpuList> parse_cpu_list(std::string_view text);

bool contains(const CpuList& cpus, int cpu);
bool contains_all(const CpuList& cpus, const CpuList& part);  // true for an empty part

}  // namespace rondo::topology
