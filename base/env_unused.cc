// SPDX-License-Identifier: Apache-2.0
// The table itself, in alphabetical order, and its log messages.
#include "base/env.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/variables.h"

namespace rondo::env {
namespace {

constexpr std::string_view kOnePort =
    "a rank uses one port for TCP, or the nearest RDMA ports; there is nothing else to set";
constexpr std::string_view kNoDirect =
    "a rank's data leaves its host from its own GPU, through its own NICs";
constexpr std::string_view kNoSwitch =
    "there are no algorithms inside switches between hosts (NVLSTree, SHARP)";
constexpr std::string_view kChosen = "chosen by Rondo; `rondo explain` says what and why";
constexpr std::string_view kNoPlugins =
    "Rondo loads only network, tuner and profiler plugins (NCCL_NET_PLUGIN, NCCL_TUNER_PLUGIN, "
    "NCCL_PROFILER_PLUGIN)";
constexpr std::string_view kNoGraphs = "files of rings and trees are not read";
constexpr std::string_view kOldName =
    "obsolete in the NCCL version whose interface Rondo has; see NCCL_ALGO";
constexpr std::string_view kSymmetric = "all calls that can use symmetric windows do";
constexpr std::string_view kOneFabric =
    "NVLink between hosts has three variables: NCCL_MNNVL_ENABLE, _UUID and _CLIQUE_ID";
constexpr std::string_view kOneProxy =
    "the only network threads are those of ranks on GPUs of several hosts, one each";
constexpr std::string_view kUntilDeadline = "connections are tried again until RONDO_INIT_TIMEOUT";

constexpr Unused kUnused[] = {
    {"NCCL_ALLGATHERV_ENABLE", false, "rondo.h has AllGatherV; broadcasts are never fused to it"},
    {"NCCL_CGA_CLUSTER_SIZE", false, "kernels use no clusters"},
    {"NCCL_CHECKS_DISABLE", false, "arguments are always checked"},
    {"NCCL_COLLNET_*", true, kNoSwitch},
    {"NCCL_CUMEM_*", false, "the way to share memory is detected at init"},
    {"NCCL_ENV_PLUGIN", true, kNoPlugins},
    {"NCCL_GIN_*", true, "there is no networking initiated by GPUs"},
    {"NCCL_GRAPH_FILE", true, kNoGraphs},
    {"NCCL_GRAPH_REGISTER", false, "capturing a call registers nothing"},
    {"NCCL_GRAPH_STREAM_ORDERING", false, "a captured kernel is on the call's own stream"},
    {"NCCL_IB_*", false, kOnePort},
    {"NCCL_IGNORE_CPU_AFFINITY", false,
     "Rondo changes a thread's affinity only for moments, within what it allows (RONDO_NUDGE)"},
    {"NCCL_INSPECTOR_*", false,
     "Rondo does not read it; a profiler plugin may (NCCL_PROFILER_PLUGIN)"},
    {"NCCL_IPC_USE_ABSTRACT_SOCKET", false,
     "always 1; containers with networks of their own use TCP"},
    {"NCCL_LAUNCH_MODE", false, kChosen},
    {"NCCL_LAUNCH_RACE_FATAL", false, "threads that launch at once take turns"},
    {"NCCL_LL128_BUFFSIZE", false, kChosen},
    {"NCCL_LL128_NTHREADS", false, kChosen},
    {"NCCL_LL_BUFFSIZE", false, kChosen},
    {"NCCL_LL_THRESHOLD", false, kOldName},
    {"NCCL_LOCAL_REGISTER", false,
     "only processes that share one GPU use registered buffers in place"},
    {"NCCL_MAX_NRINGS", false, kOldName},
    {"NCCL_MAX_P2P_NCHANNELS", false, kChosen},
    {"NCCL_MEM_SYNC_DOMAIN", false, "kernels that write to other GPUs use the remote domain"},
    {"NCCL_MIN_NRINGS", false, kOldName},
    {"NCCL_MIN_P2P_NCHANNELS", false, kChosen},
    {"NCCL_MNNVL_*", true, kOneFabric},
    {"NCCL_MULTI_RANK_GPU_ENABLE", false, "several ranks may always share a GPU"},
    {"NCCL_NETDEVS_POLICY", false, "all interfaces that NCCL_SOCKET_IFNAME allows are used"},
    {"NCCL_NET_FORCE_*", false, kOnePort},
    {"NCCL_NET_GDR_*", false, "see NCCL_NET_GDR_LEVEL and NCCL_NET_GDR_READ"},
    {"NCCL_NET_MERGE_*", false, kOnePort},
    {"NCCL_NET_SHARED_*", false, kChosen},
    {"NCCL_NO_CACHE", false, "variables are read whenever a communicator is made"},
    {"NCCL_NTHREADS", false, kChosen},
    {"NCCL_NVLSTREE_*", true, kNoSwitch},
    {"NCCL_NVLS_CHUNKSIZE", false, kChosen},
    {"NCCL_NVLS_NCHANNELS", false, kChosen},
    {"NCCL_OFI_*", false, "Rondo does not read it; a network plugin may (NCCL_NET_PLUGIN)"},
    {"NCCL_OOB_NET_*", false, "ranks meet over TCP, on the interfaces of NCCL_SOCKET_IFNAME"},
    {"NCCL_P2P_DIRECT_DISABLE", false, "see NCCL_P2P_DISABLE"},
    {"NCCL_P2P_LL_THRESHOLD", false, kChosen},
    {"NCCL_P2P_NET_CHUNKSIZE", false, kChosen},
    {"NCCL_P2P_NVL_CHUNKSIZE", false, kChosen},
    {"NCCL_P2P_PCI_CHUNKSIZE", false, kChosen},
    {"NCCL_P2P_PXN_LEVEL", false, kNoDirect},
    {"NCCL_PAT_ENABLE", true, "there is no PAT; `rondo explain` says what runs instead"},
    {"NCCL_PROFILE_*", false,
     "Rondo does not read it; a profiler plugin may (NCCL_PROFILER_PLUGIN)"},
    {"NCCL_PROXY_*", false, kOneProxy},
    {"NCCL_PXN_*", false, kNoDirect},
    {"NCCL_RAS_TIMEOUT_FACTOR", false,
     "processes keep no connections for status queries; a query's TIMEOUT limits it"},
    {"NCCL_RUNTIME_CONNECT", false, "connections are always made at first use"},
    {"NCCL_SET_STACK_SIZE", false, "kernels need no stack"},
    {"NCCL_SET_THREAD_NAME", false,
     "helpers and servers have names; other threads keep those of their creators"},
    {"NCCL_SINGLE_RING_THRESHOLD", false, kOldName},
    {"NCCL_SOCKET_RETRY_CNT", false, kUntilDeadline},
    {"NCCL_SOCKET_RETRY_SLEEP_MSEC", false, kUntilDeadline},
    {"NCCL_SYM_*", false, kSymmetric},
    {"NCCL_TREE_THRESHOLD", false, kOldName},
    {"NCCL_TUNER_*", false, "Rondo does not read it; a tuner plugin may (NCCL_TUNER_PLUGIN)"},
    {"NCCL_UID_STAGGER_*", false, "joining takes a logarithmic number of rounds"},
    {"NCCL_WIN_ENABLE", false, "windows are always available"},
};

bool stands_for(const Unused& row, std::string_view name) {
  if (!row.name.ends_with('*')) return row.name == name;
  return name.starts_with(row.name.substr(0, row.name.size() - 1));
}

// The number of single-character edits from a to b (Levenshtein distance).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

void report(const std::string& name, const std::string& value) {
  constexpr std::size_t kTypingError = 2;
  if (find(name) != nullptr) return;
  if (const Unused* row = find_unused(name); row != nullptr && row->asks) {
    RONDO_WARN("{}='{}' has no effect: {}", name, value, row->why);
  } else if (row != nullptr) {
    RONDO_INFO(kEnv, "{}='{}' has no effect: {}", name, value, row->why);
  } else if (const std::string_view near = nearest(name, kTypingError); !near.empty()) {
    RONDO_WARN("{}='{}' has no effect, no variable has this name: did you mean {}?", name, value,
               near);
  } else if (name.starts_with("NCCL_")) {
    RONDO_INFO(kEnv, "{}='{}' has no effect: Rondo does not know it", name, value);
  }
}

}  // namespace

std::span<const Unused> unused() { return kUnused; }

const Unused* find_unused(std::string_view name) {
  if (find(name) != nullptr) return nullptr;  // known, although a row with '*' matches it
  const auto row = std::find_if(std::begin(kUnused), std::end(kUnused),
                                [&](const Unused& each) { return stands_for(each, name); });
  return row == std::end(kUnused) ? nullptr : row;
}

std::string_view nearest_of(std::string_view name, std::span<const std::string_view> words,
                            std::size_t edits) {
  std::string_view best;
  std::size_t closest = edits + 1;
  for (const std::string_view word : words)
    if (const std::size_t d = distance(name, word); d < closest) best = word, closest = d;
  return best;
}

std::string_view nearest(std::string_view name, std::size_t edits) {
  std::vector<std::string_view> words;
  for (const Variable& variable : all()) words.push_back(variable.name);
  for (const Unused& row : unused())
    if (!row.name.ends_with('*')) words.push_back(row.name);
  return nearest_of(name, words, edits);
}

void report_unused() {
  if (!log::wanted(log::Level::kWarn)) return;
  static std::once_flag once;
  std::call_once(once, [] {
    for (const std::string& complaint : conf_complaints()) RONDO_WARN("{}", complaint);
    for (const auto& [name, value] : set_anywhere()) report(name, value);
  });
}

}  // namespace rondo::env
