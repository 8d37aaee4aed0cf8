// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/read_check.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/env.h"
#include "topology/small_file.h"

namespace rondo {
namespace {

constexpr std::size_t kMaxStatus = 8 << 10;

bool has_seccomp_filter() {
  const auto status = topology::read_small_file("/proc/self/status", kMaxStatus);
  return status && status->find("\nSeccomp:\t2") != std::string::npos;
}

// What forbids the read, and what would allow it.
std::string remedy(int error) {
  if (error != EPERM) return "the processes must see each other under their process ids";
  const auto scope = topology::read_small_file("/proc/sys/kernel/yama/ptrace_scope", 16);
  if (scope && std::atoi(scope->c_str()) > 0)
    return fmt::format("kernel.yama.ptrace_scope is {}, 0 allows it", std::atoi(scope->c_str()));
  if (has_seccomp_filter()) return "a seccomp filter (container, sandbox) may forbid it";
  return "both processes must have one user and one user namespace, and be dumpable";
}

}  // namespace

ProcessMemory memory_of(const RankFacts& rank) { return {rank.pid, rank.id_at, rank.process}; }

std::string obstacle_to_reads(const RankFacts& own, std::span<const RankFacts* const> others) {
  for (const RankFacts* rank : others) {
    const auto refused = [&](std::string_view why, std::string_view cure) {
      return fmt::format("rank {} cannot read memory of rank {} (pid {}): {}; {}", own.rank,
                         rank->rank, rank->pid, why, cure);
    };
    if (rank->pid_namespace != own.pid_namespace)
      return refused("it is in another PID namespace", "one PID namespace for all allows it");
    ProcessId found{};
    const int error = memory_of(*rank).read(&found, rank->id_at, sizeof(found));
    if (error != 0) return refused(strerror(error), remedy(error));
  }
  return "";
}

Result<MemoryReads> reads_of_environment() {
  const std::int64_t asked = env::get_int("RONDO_CMA");
  if (asked < 0 || asked > static_cast<int>(MemoryReads::kAlways))
    return fail(StatusCode::kInvalidUsage, "RONDO_CMA={}: use 0, 1 or 2", asked);
  return static_cast<MemoryReads>(asked);
}

}  // namespace rondo
