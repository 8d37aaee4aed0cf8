// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/doctor_checks.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/env.h"
#include "base/fd.h"
#include "base/printable.h"
#include "bench/gpu_lane.h"
#include "collectives/host/verified_calls.h"
#include "collectives/planner/algorithm_filter.h"
#include "collectives/planner/protocol_filter.h"
#include "collectives/planner/tune_file.h"
#include "collectives/planner/tuning.h"
#include "collectives/trace/black_box.h"
#include "topology/cpu_budget.h"
#include "topology/describe.h"
#include "topology/net_interfaces.h"
#include "topology/small_file.h"
#include "transport/shm/memfd.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace rondo::cli {
namespace {

using topology::bytes_text;
using Findings = std::vector<Finding>;

Finding ok(std::string subject, std::string text) {
  return {Verdict::kOk, std::move(subject), std::move(text), ""};
}
Finding warning(std::string subject, std::string text, std::string remedy) {
  return {Verdict::kWarning, std::move(subject), std::move(text), std::move(remedy)};
}
Finding problem(std::string subject, std::string text, std::string remedy) {
  return {Verdict::kProblem, std::move(subject), std::move(text), std::move(remedy)};
}

std::string file_text(const ExamineOptions& options, const std::string& path) {
  std::string text = topology::read_small_file(options.root + path).value_or("");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// "always [madvise] never" -> "madvise"
std::string chosen(const std::string& text) {
  const auto open = text.find('['), close = text.find(']');
  return open == std::string::npos || close == std::string::npos
             ? text
             : text.substr(open + 1, close - open - 1);
}

bool parses(const env::Variable& variable, const std::string& value) {
  char* end = nullptr;
  switch (variable.type) {
    case env::Type::kBool:
      for (const char* word : {"0", "1", "true", "false", "yes", "no", "on", "off"})
        if (value == word) return true;
      return false;
    case env::Type::kInt:
    case env::Type::kBytes:
      return env::parse_bytes(value).has_value();
    case env::Type::kDouble:
      return std::strtod(value.c_str(), &end), !value.empty() && *end == '\0';
    case env::Type::kSeconds:
      return std::strtod(value.c_str(), &end) > 0 && *end == '\0';
    case env::Type::kString:
    case env::Type::kFile:
    case env::Type::kSecret:
      break;
  }
  return true;
}

// Of a variable whose text is a number or a word of its type: what else is wrong with its value.
std::optional<Finding> check_value(const std::string& name, const std::string& value) {
  const auto refused = [&](const Error& error) {
    return problem("environment", error.text, "every ncclCommInitRank fails with it; correct it");
  };
  if (name == "NCCL_ALGO") {
    if (const auto list = parse_algorithms(value, name); !list.ok()) return refused(list.error());
  } else if (name == "NCCL_PROTO") {
    if (const auto list = parse_protocols(value, name); !list.ok()) return refused(list.error());
  } else if (name == "RONDO_VERIFY") {
    if (const auto every = parse_verified(value, name); !every.ok()) return refused(every.error());
  } else if (name == "RONDO_TUNE_FILE" && !value.empty()) {
    const std::string gpu = bench::gpu_devices() > 0 ? bench::gpu_name(0) : std::string();
    if (const TunedCosts costs = costs_of_file(value, gpu); !costs.refused.empty())
      return warning("environment", "RONDO_TUNE_FILE: " + costs.refused,
                     "priors are used instead; `rondo tune FILE` measures this machine");
  } else if (name == "RONDO_RECORD") {
    if (const auto kind = trace::parse_recording(value); !kind.ok())
      return warning("environment", kind.error().text, "no record of calls is kept; correct it");
  } else if (name == "NCCL_BUFFSIZE") {
    const auto asked = static_cast<std::uint64_t>(env::parse_bytes(value).value_or(0));
    const std::uint64_t used = tuning::asked_slot_bytes(asked) * tuning::kConnectionSlots;
    if (asked != used)
      return warning("environment",
                     fmt::format("NCCL_BUFFSIZE='{}': {} bytes are used", value, used),
                     fmt::format("a multiple of {} from {} to {} is used as it is",
                                 tuning::kConnectionSlots * tuning::kMinSlotBytes,
                                 tuning::kConnectionSlots * tuning::kMinSlotBytes,
                                 tuning::kConnectionSlots * tuning::kMaxSlotBytes));
  }
  return std::nullopt;
}

// Variables of the Python package, which the library itself does not read.
bool is_of_python(std::string_view name) {
  return name == "RONDO_LIBRARY" || name.starts_with("RONDO_TORCH_");
}

}  // namespace

Findings check_environment(const std::vector<std::string>& environment) {
  Findings findings;
  for (const std::string& complaint : env::conf_complaints())
    findings.push_back(problem("environment", complaint, "correct NCCL_CONF_FILE, or the file"));
  int known = 0;
  for (const std::string& entry : environment) {
    const std::string name = entry.substr(0, entry.find('='));
    const std::string value = entry.size() > name.size() ? entry.substr(name.size() + 1) : "";
    if (!name.starts_with("NCCL_") && !name.starts_with("RONDO_")) continue;
    const env::Variable* variable = env::find(name);
    if (const env::Unused* unused = env::find_unused(name); unused != nullptr && !variable) {
      const std::string text = fmt::format("{}='{}' has no effect: {}", name, value, unused->why);
      findings.push_back(warning("environment", text,
                                 unused->asks ? "unset it; Rondo cannot do what it asks for"
                                              : "unset it, or keep it for other programs"));
    } else if (is_of_python(name)) {
      ++known;
    } else if (variable == nullptr) {
      const std::string_view near = env::nearest(name, 3);  // more than three edits: another word
      findings.push_back(warning(
          "environment", fmt::format("{}='{}' has no effect: Rondo does not know it", name, value),
          near.empty() ? "unset it if no other program reads it; `rondo env` lists all variables"
                       : fmt::format("did you mean {}? `rondo env` lists all variables", near)));
    } else if (!parses(*variable, value)) {
      findings.push_back(
          warning("environment", fmt::format("{}='{}' is not understood", name, value),
                  fmt::format("the default '{}' applies; {}", variable->fallback, variable->help)));
    } else if (auto wrong = check_value(name, value)) {
      findings.push_back(*std::move(wrong));
    } else {
      ++known;
    }
  }
  if (findings.empty())
    findings.push_back(ok(
        "environment", fmt::format("{} of Rondo set, all understood", counted(known, "variable"))));
  return findings;
}

Findings check_processors(const ExamineOptions& options) {
  Findings findings;
  const topology::CpuBudget budget = topology::cpu_budget(options.root);
  if (std::isinf(budget.quota_cpus) || budget.quota_cpus >= budget.affinity_cpus)
    findings.push_back(ok("processors", fmt::format("{} usable", budget.usable)));
  else
    findings.push_back(
        warning("processors",
                fmt::format("the cgroup grants {:.2g} CPUs of the {} in the affinity mask: ranks "
                            "beyond that are throttled in the middle of a collective",
                            budget.quota_cpus, budget.affinity_cpus),
                fmt::format("run at most {}, or raise the container's CPU limit",
                            counted(std::max(1, static_cast<int>(budget.quota_cpus)), "rank"))));
  if (options.ranks > budget.usable)
    findings.push_back(
        warning("ranks",
                fmt::format("{} on {} share them: waits sleep instead of spinning, small "
                            "messages take longer",
                            counted(options.ranks, "rank"), counted(budget.usable, "usable CPU")),
                fmt::format("for the lowest latency run {}", counted(budget.usable, "rank"))));
  const std::string governor =
      file_text(options, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (governor.empty())
    findings.push_back(ok("frequency", "no governor (virtual machine, or fixed clock)"));
  else if (governor == "performance")
    findings.push_back(ok("frequency", "governor performance"));
  else
    findings.push_back(warning("frequency",
                               fmt::format("governor {}: the first calls after a pause are slow "
                                           "and measurements vary",
                                           governor),
                               "cpupower frequency-set -g performance"));
  const std::string clock =
      file_text(options, "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (clock.empty() || clock == "tsc" || clock == "kvm-clock" || clock == "arch_sys_counter")
    findings.push_back(ok("clock", clock.empty() ? "source unknown" : clock));
  else
    findings.push_back(warning("clock",
                               fmt::format("source {}: every reading is a system call", clock),
                               "boot with clocksource=tsc if the processor's is stable"));
  const std::string load = file_text(options, "/proc/loadavg");
  const double busy = std::atof(load.c_str());
  if (busy > budget.usable)
    findings.push_back(warning("load",
                               fmt::format("{:.1f} on {}: other programs compete with ranks", busy,
                                           counted(budget.usable, "CPU")),
                               "measure on a quiet machine"));
  else
    findings.push_back(
        ok("load", fmt::format("{:.1f} on {}", busy, counted(budget.usable, "CPU"))));
  return findings;
}

Findings check_limits() {
  Findings findings;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string open_files = fmt::format("{} per process", limit.rlim_cur);
  if (limit.rlim_cur < 256)
    findings.push_back(
        problem("file descriptors", open_files + ": too few for tens of ranks", "ulimit -n 4096"));
  else if (limit.rlim_cur < 1024)
    findings.push_back(warning("file descriptors", open_files, "ulimit -n 4096 for many ranks"));
  else
    findings.push_back(ok("file descriptors", open_files));
  return findings;
}

Findings check_kernel() {
  Findings findings;
  utsname kernel{};
  uname(&kernel);
  // With these arguments a kernel that has the call returns EINVAL.
  if (syscall(SYS_futex_waitv, nullptr, 0, 0, nullptr, 0) < 0 && errno == ENOSYS)
    findings.push_back(warning("kernel", fmt::format("{} has no futex_waitv", kernel.release),
                               "Linux 5.16 or later lets one thread sleep for several ranks"));
  else
    findings.push_back(ok("kernel", fmt::format("{}, futex_waitv", kernel.release)));
  const Fd own(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (own)
    findings.push_back(ok("process handles", "pidfd_open works"));
  else
    findings.push_back(
        warning("process handles", fmt::format("pidfd_open: {}", std::strerror(errno)),
                "Linux 5.3 or later; without it processes use TCP instead of shared memory"));
  rlimit files{};
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur != RLIM_INFINITY)
    findings.push_back(warning("memory files",
                               fmt::format("ulimit -f allows files of {} bytes", files.rlim_cur),
                               "ulimit -f unlimited, if an init or ncclMemAlloc fails because of "
                               "it: shared memory is a file"));
  else if (const auto memory = shm::create_memfd("rondo-doctor", 4096); !memory.ok())
    findings.push_back(problem("memory files", memory.error().text,
                               "allow memfd_create in the seccomp profile of the container; until "
                               "then processes use TCP"));
  else
    findings.push_back(ok("memory files", "memfd_create with seals works"));
  return findings;
}

Findings check_memory(const ExamineOptions& options) {
  Findings findings;
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) == 0)
    findings.push_back(
        ok("/dev/shm", fmt::format("{}; Rondo does not use it (no --shm-size needed)",
                                   bytes_text(static_cast<std::uint64_t>(shm.f_blocks) *
                                              static_cast<std::uint64_t>(shm.f_frsize)))));
  else
    findings.push_back(ok("/dev/shm", "not mounted; Rondo does not use it"));
  const std::string huge =
      chosen(file_text(options, "/sys/kernel/mm/transparent_hugepage/enabled"));
  if (huge == "never")
    findings.push_back(warning("huge pages",
                               "transparent huge pages are off: large buffers miss in the TLB",
                               "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"));
  else
    findings.push_back(ok("huge pages", huge.empty() ? "setting unknown" : huge));
  if (file_text(options, "/proc/sys/vm/overcommit_memory") == "2")
    findings.push_back(warning("overcommit",
                               "strict accounting: reserved but unused staging memory counts",
                               "sysctl vm.overcommit_memory=0 if allocations fail"));
  else
    findings.push_back(ok("overcommit", "memory is committed when it is touched"));
  const std::string limit = file_text(options, "/sys/fs/cgroup/memory.max");
  if (!limit.empty() && limit != "max") {
    const double bytes = std::atof(limit.c_str());
    const std::string text =
        fmt::format("the cgroup grants {}", bytes_text(static_cast<std::uint64_t>(bytes)));
    if (bytes < 512.0 * (1 << 20))
      findings.push_back(warning("memory limit", text, "raise the container's memory limit"));
    else
      findings.push_back(ok("memory limit", text));
  }
  return findings;
}

Findings check_network(const ExamineOptions& options) {
  Findings findings;
  const auto interfaces = topology::read_net_interfaces(options.root);
  std::string usable;
  bool loopback = false;
  for (const auto& interface : interfaces) {
    if (!interface.up) continue;
    if (interface.loopback) {
      loopback = true;
    } else {
      usable += (usable.empty() ? "" : ", ") + interface.name;
      if (interface.megabits > 0) usable += fmt::format(" ({} Mbit/s)", interface.megabits);
    }
  }
  if (!usable.empty())
    findings.push_back(ok("interfaces", usable));
  else if (loopback || interfaces.empty())
    findings.push_back(ok("interfaces", "only loopback: ranks of this host can meet, no others"));
  else
    findings.push_back(problem("interfaces", "none is up, not even loopback: ranks cannot meet",
                               "ip link set lo up"));
  return findings;
}

Findings examine(const ExamineOptions& options) {
  std::vector<std::string> environment;
  for (const auto& [name, value] : env::set_anywhere()) environment.push_back(name + '=' + value);
  Findings all;
  for (Findings part :
       {check_processors(options), check_cores(), check_jobs(), check_limits(), check_kernel(),
        check_memory(options), check_network(options), check_rdma(options), check_devices(options),
        check_tuner(), check_profiler(), check_environment(environment)})
    all.insert(all.end(), std::make_move_iterator(part.begin()),
               std::make_move_iterator(part.end()));
  return all;
}

}  // namespace rondo::cli
