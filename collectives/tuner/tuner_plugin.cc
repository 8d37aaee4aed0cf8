// SPDX-License-Identifier: Apache-2.0
#include "collectives/tuner/tuner_plugin.h"

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <set>

#include "base/env.h"
#include "base/log.h"
#include "base/printable.h"
#include "collectives/planner/device_costs.h"
#include "transport/plugin/library.h"

namespace rondo::tuner {
namespace {

template <class Function>
Function as(abi::Any any) {
  return reinterpret_cast<Function>(any);
}

Result<std::unique_ptr<const TunerPlugin>> read_library(void* library, const std::string& file) {
  RONDO_TRY(const plugin::Symbol found,
            plugin::newest_symbol(plugin::kTuner, library, file, abi::kOldest, abi::kNewest));
  const auto& table = *static_cast<const abi::TunerTable*>(found.address);
  const char* const missing = table.name == nullptr || *table.name == '\0' ? "name"
                              : table.init == nullptr                      ? "init"
                              : table.ask == nullptr                       ? "getCollInfo"
                                                                           : nullptr;
  if (missing != nullptr)
    return fail(StatusCode::kInvalidUsage, "ncclTunerPlugin_v{} of the tuner plugin {} has no {}",
                found.version, printable(file), missing);
  return std::make_unique<const TunerPlugin>(table, found.version, file);
}

// A library that is a tuner is never unloaded; it may also be in use as another plugin.
Result<std::unique_ptr<const TunerPlugin>> load_library(const std::string& file) {
  RONDO_TRY(void* const library, plugin::open_library(plugin::kTuner, file));
  auto read = read_library(library, file);
  if (read.ok()) return read;
  dlclose(library);
  return read.error();
}

int function_of(Collective which) {
  switch (which) {
    case Collective::kBroadcast:
      return abi::kBroadcast;
    case Collective::kReduce:
      return abi::kReduce;
    case Collective::kAllGather:
      return abi::kAllGather;
    case Collective::kReduceScatter:
      return abi::kReduceScatter;
    default:
      return abi::kAllReduce;
  }
}

// Rondo's prior latencies of hops and launches, in microseconds. Bandwidths stay 0: NCCL's model
// defines them differently.
abi::Constants constants() {
  abi::Constants all{};
  constexpr cuda::Protocol kProtocols[] = {cuda::Protocol::kLL, cuda::Protocol::kLL128,
                                           cuda::Protocol::kSimple};
  constexpr gpu::LinkClass kLinks[] = {gpu::LinkClass::kNvLink, gpu::LinkClass::kPci,
                                       gpu::LinkClass::kNetwork};
  for (const int algorithm : {abi::kTree, abi::kRing})
    for (int p = 0; p < abi::kProtocols; ++p) {
      all.base_latencies[algorithm][p] = gpu::kDevicePriors.of(gpu::DeviceRate::kLaunch) / 1000;
      for (int link = 0; link < 3; ++link)
        all.hop_latencies[link][algorithm][p] = gpu::hop_ns(kProtocols[p], kLinks[link]) / 1000;
    }
  return all;
}

// For a plugin that the user did not request: null if it is absent. An absent one is not searched
// for again.
const TunerPlugin* found_unasked(const std::string& file) {
  static std::mutex mutex;
  static auto& absent = *new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (absent.contains(file)) return nullptr;
  const auto found = TunerPlugin::load(file);
  if (found.ok()) return *found;
  RONDO_INFO(kTuning, "no tuner plugin: {}", found.error().text);
  absent.insert(file);
  return nullptr;
}

}  // namespace

TunerPlugin::TunerPlugin(const abi::TunerTable& table, int version, const std::string& file)
    : table_(table),
      version_(version),
      name_(printable(table.name).substr(0, 64)),
      text_(fmt::format("plugin '{}' ({}, ncclTunerPlugin_v{})", name_, printable(file), version)) {
}

Result<const TunerPlugin*> TunerPlugin::load(const std::string& file) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, std::unique_ptr<const TunerPlugin>>;
  std::lock_guard lock(mutex);
  auto& known = loaded[file];
  if (known) return known.get();
  RONDO_TRY(known, load_library(file));
  RONDO_INFO(kTuning, "loaded the tuner {}", known->text());
  return known.get();
}

Error TunerPlugin::failure(const char* function, int result) const {
  return fail(StatusCode::kSystemError, "{}: {}() gave {} ({})", text_, function,
              plugin::name_of_result(result), result);
}

Result<const TunerPlugin*> find_tuner() {
  const std::string asked = env::get_string("NCCL_TUNER_PLUGIN");
  const std::string file = plugin::file_of(plugin::kTuner, asked);
  if (file.empty()) return nullptr;
  if (!asked.empty()) return TunerPlugin::load(file);
  if (const TunerPlugin* const own = found_unasked(file)) return own;
  const std::string network = plugin::file_of(plugin::kNetwork, env::get_string("NCCL_NET_PLUGIN"));
  return network.empty() ? nullptr : found_unasked(network);
}

Result<std::unique_ptr<Tuner>> Tuner::open(const TunerPlugin& plugin, const About& about) {
  const auto ranks = static_cast<std::size_t>(about.ranks);
  const auto hosts = static_cast<std::size_t>(about.hosts);
  void* context = nullptr;
  int result = 0, crash = 0;
  const auto init = [&] {
    if (plugin.version_ >= 5) {
      abi::NvlDomains domains{about.hosts, about.min_ranks_of_host, about.max_ranks_of_host};
      abi::Constants its_own = constants();
      result = as<abi::Init5>(plugin.table_.init)(&context, about.communicator, ranks, hosts,
                                                  plugin::kLogger, &domains, &its_own);
    } else {
      result = as<abi::Init2>(plugin.table_.init)(ranks, hosts, plugin::kLogger, &context);
    }
  };
  {
    std::lock_guard lock(plugin.mutex_);
    crash = plugin::crash_of(init);
  }
  if (crash != 0)
    return fail(StatusCode::kSystemError,
                "{}: init() crashed ({}). Without it: NCCL_TUNER_PLUGIN=none", plugin.text_,
                strsignal(crash));
  if (result == 0) return std::unique_ptr<Tuner>(new Tuner(plugin, context));
  Error error = plugin.failure("init", result);
  error.text += "; NCCL_DEBUG=INFO shows what it logs. Without it: NCCL_TUNER_PLUGIN=none";
  return error;
}

Tuner::~Tuner() {
  if (plugin_.table_.finish == nullptr) return;
  std::lock_guard lock(plugin_.mutex_);
  if (const int result = plugin_.table_.finish(context_); result != 0)
    RONDO_INFO(kTuning, "{}",
               plugin_.failure(plugin_.version_ >= 5 ? "finalize" : "destroy", result).text);
}

Answer Tuner::ask(Collective which, std::uint64_t bytes, abi::Costs& costs) const {
  const int function = function_of(which);
  auto* const table = reinterpret_cast<float**>(&costs[0][0]);
  const abi::Any ask = plugin_.table_.ask;
  Answer answer;
  std::lock_guard lock(plugin_.mutex_);
  if (plugin_.version_ >= 4) {
    answer.result = as<abi::Ask4>(ask)(context_, function, bytes, 1, table, abi::kAlgorithms,
                                       abi::kProtocols, 0, &answer.channels);
  } else if (plugin_.version_ == 3) {
    answer.result = as<abi::Ask3>(ask)(context_, function, bytes, 1, table, abi::kAlgorithms,
                                       abi::kProtocols, &answer.channels);
  } else {
    int algorithm = abi::kUndecided, protocol = abi::kUndecided;
    answer.result = as<abi::Ask2>(ask)(context_, function, bytes, 0, 0, 1, &algorithm, &protocol,
                                       &answer.channels);
    if (algorithm >= 0 && algorithm < abi::kAlgorithms && protocol >= 0 &&
        protocol < abi::kProtocols)
      costs[algorithm][protocol] = 0;
  }
  return answer;
}

}  // namespace rondo::tuner
