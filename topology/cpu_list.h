// CpuList: numbers of logical CPUs as the kernel counts them, ascending, each once; and the text
// form that /sys, taskset and cpusets use ("0-3,8").
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::topology {

using CpuList = std::vector<int>;

// Numbers above this are taken for garbage.
inline constexpr int kMaxCpu = (1 << 16) - 1;

std::string to_text(const CpuList& cpus);  // "" for none

// Nothing where the text is not such a list; "" and "\n" are the empty list.
std::optional<CpuList> parse_cpu_list(std::string_view text);

bool contains(const CpuList& cpus, int cpu);
bool contains_all(const CpuList& cpus, const CpuList& part);  // true for an empty part

}  // namespace rondo::topology
