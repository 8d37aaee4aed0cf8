// SPDX-License-Identifier: Apache-2.0
#include "api/config.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "api/arguments.h"
#include "base/env.h"
#include "base/log.h"
#include "base/seconds.h"
#include "transport/connection.h"
#include "transport/cuda/device.h"

namespace rondo::api {
namespace {

constexpr int kUndefined = NCCL_CONFIG_UNDEF_INT;
constexpr int kMax = INT_MAX;
constexpr int kMaxCtas = 64;

struct IntField {
  const char* name;
  std::size_t offset;
  int since;  // first version code that has the field; 0: the size decides
  int minimum, maximum;
  int fallback;
  const char* variable = nullptr;    // overrides the caller if set
  const char* older_name = nullptr;  // of the variable; used if `variable` is not set
};

#define FIELD(name) #name, offsetof(ncclConfig_t, name)
constexpr IntField kIntFields[] = {
    {FIELD(blocking), NCCL_VERSION(2, 14, 0), 0, 1, 1, "NCCL_COMM_BLOCKING"},
    {FIELD(cgaClusterSize), NCCL_VERSION(2, 17, 0), 0, kMax, 4},
    {FIELD(minCTAs), NCCL_VERSION(2, 17, 0), 1, kMax, 1, "NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS"},
    {FIELD(maxCTAs), NCCL_VERSION(2, 17, 0), 1, kMax, kMaxCtas, "NCCL_MAX_CTAS",
     "NCCL_MAX_NCHANNELS"},
    {FIELD(splitShare), 0, 0, 1, 0},
    {FIELD(trafficClass), NCCL_VERSION(2, 25, 0), 0, kMax, kUndefined},
    {FIELD(collnetEnable), NCCL_VERSION(2, 27, 0), 0, 1, 0},
    {FIELD(CTAPolicy), NCCL_VERSION(2, 27, 0), 0, 3, NCCL_CTA_POLICY_DEFAULT},
    {FIELD(shrinkShare), NCCL_VERSION(2, 27, 0), 0, 1, 0},
    {FIELD(nvlsCTAs), NCCL_VERSION(2, 27, 0), 1, kMax, kUndefined},
    {FIELD(nChannelsPerNetPeer), NCCL_VERSION(2, 28, 0), 1, 64, kUndefined},
    {FIELD(nvlinkCentricSched), NCCL_VERSION(2, 28, 0), 0, 1, 0},
    {FIELD(graphUsageMode), NCCL_VERSION(2, 29, 0), 0, 2, 2},
    {FIELD(numRmaCtx), NCCL_VERSION(2, 29, 0), 0, kMax, 1},
    {FIELD(maxP2pPeers), NCCL_VERSION(2, 30, 0), 1, kMax, kUndefined},
    {FIELD(graphStreamOrdering), NCCL_VERSION(2, 30, 5), 0, 1, 1},
    {FIELD(launchOrderImplicit), NCCL_VERSION(2, 31, 0), 0, 1, 0},
    {FIELD(numRmaSig), NCCL_VERSION(2, 31, 0), 0, kMax, kUndefined},
    {FIELD(rmaEagerInit), NCCL_VERSION(2, 31, 0), 0, 1, kUndefined},
    {FIELD(hostCftMode), NCCL_VERSION(2, 31, 0), 1, 3, kUndefined},
    {FIELD(nvlsHostMode), NCCL_VERSION(2, 31, 0), 0, kMax, kUndefined},
};
#undef FIELD

int& at(ncclConfig_t& config, const IntField& field) {
  return *reinterpret_cast<int*>(reinterpret_cast<char*>(&config) + field.offset);
}
int at(const ncclConfig_t& config, const IntField& field) {
  return at(const_cast<ncclConfig_t&>(config), field);
}

// Copies the fields that both the caller's version and this one have; the rest is undefined.
Result<ncclConfig_t> read_user(const ncclConfig_t* user) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (user == nullptr) return config;
  constexpr std::size_t kSmallest = offsetof(ncclConfig_t, blocking) + 2 * sizeof(int);
  if (user->magic != NCCL_API_MAGIC || user->size < kSmallest)
    return fail(StatusCode::kInvalidArgument,
                "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
  std::memcpy(&config, user, std::min(user->size, sizeof(config)));
  const auto version = static_cast<int>(config.version);
  for (const IntField& field : kIntFields)
    if (version < field.since || field.offset + sizeof(int) > user->size)
      at(config, field) = kUndefined;
  const auto has = [&](std::size_t offset) { return offset + sizeof(char*) <= user->size; };
  if (version < NCCL_VERSION(2, 17, 0) || !has(offsetof(ncclConfig_t, netName)))
    config.netName = nullptr;
  if (version < NCCL_VERSION(2, 27, 0) || !has(offsetof(ncclConfig_t, commName)))
    config.commName = nullptr;
  return config;
}

Status check_range(const ncclConfig_t& config, const IntField& field) {
  const int value = at(config, field);
  if (value == kUndefined || (value >= field.minimum && value <= field.maximum)) return ok_status();
  return fail(StatusCode::kInvalidArgument, "Invalid config {} attribute value {}", field.name,
              value);
}

// Parses NCCL_CTA_POLICY: words joined by "|". False if a word is unknown.
bool read_cta_policy(std::string_view text, int* policy) {
  constexpr std::pair<std::string_view, int> kWords[] = {{"DEFAULT", NCCL_CTA_POLICY_DEFAULT},
                                                         {"EFFICIENCY", NCCL_CTA_POLICY_EFFICIENCY},
                                                         {"ZERO", NCCL_CTA_POLICY_ZERO}};
  *policy = 0;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t bar = std::min(text.find('|', at), text.size());
    const std::string_view word = text.substr(at, bar - at);
    const auto* const found = std::find_if(std::begin(kWords), std::end(kWords),
                                           [&](const auto& row) { return row.first == word; });
    if (found == std::end(kWords)) return false;
    *policy |= found->second;
    at = bar + 1;
  }
  return true;
}

void apply_environment(ncclConfig_t& config) {
  constexpr const char* kInOrder = "NCCL_LAUNCH_ORDER_IMPLICIT";
  if (env::raw(kInOrder)) config.launchOrderImplicit = env::get_bool(kInOrder) ? 1 : 0;
  if (const auto text = env::get_string("NCCL_CTA_POLICY"); !text.empty()) {
    int policy = 0;
    if (read_cta_policy(text, &policy)) {
      config.CTAPolicy = policy;
    } else {
      RONDO_WARN("NCCL_CTA_POLICY={} is not of DEFAULT, EFFICIENCY and ZERO, joined by |; ignored",
                 text);
    }
  }
  constexpr int kOneGraph = 1, kMixed = 2;  // graphUsageMode
  const bool mixes = config.graphUsageMode == kUndefined || config.graphUsageMode == kMixed;
  if (mixes && !env::get_bool("NCCL_GRAPH_MIXING_SUPPORT")) config.graphUsageMode = kOneGraph;
  for (const IntField& field : kIntFields) {
    const char* variable = field.variable;
    if (variable == nullptr) continue;
    if (!env::raw(variable) && field.older_name != nullptr) variable = field.older_name;
    if (!env::raw(variable)) continue;
    const std::int64_t value = env::get_int(variable);
    if (value >= field.minimum && value <= field.maximum) {
      at(config, field) = static_cast<int>(value);
    } else {
      RONDO_WARN("{}={} is not in {}..{}; ignored", variable, value, field.minimum, field.maximum);
    }
  }
}

}  // namespace

Result<CommConfig> parse_config(const ncclConfig_t* user, const CommConfig* parent) {
  RONDO_TRY(ncclConfig_t config, read_user(user));
  for (const IntField& field : kIntFields) RONDO_CHECK_OK(check_range(config, field));
  warn_of_unused_fields(config);
  apply_environment(config);
  for (const IntField& field : kIntFields) {
    int& value = at(config, field);
    if (value == kUndefined) value = parent ? at(parent->fields, field) : field.fallback;
  }
  if (config.minCTAs > config.maxCTAs)
    return fail(StatusCode::kInvalidArgument,
                "Invalid config min/max channels attribute value {}/{}", config.minCTAs,
                config.maxCTAs);

  CommConfig result{config, {}, {}, buffer_checks_wanted()};
  if (config.netName != nullptr) {
    result.net_name = config.netName;
  } else if (parent != nullptr) {
    result.net_name = parent->net_name;
  }
  if (const auto set = env::raw("NCCL_NET")) result.net_name = *set;
  env::report_unused();
  if (config.commName != nullptr) result.comm_name = config.commName;
  result.fields.netName = nullptr;
  result.fields.commName = nullptr;
  result.fields.size = sizeof(ncclConfig_t);
  return result;
}

Result<CallConfig> parse_call_config(const ncclCollConfig_t* user, const CommConfig& comm) {
  CallConfig result;
  if (user == nullptr) return result;
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  constexpr std::size_t kSmallest = offsetof(ncclCollConfig_t, userProfilerTag);
  if (user->magic != NCCL_API_MAGIC || user->size < kSmallest)
    return fail(StatusCode::kInvalidArgument,
                "ncclCollConfig_t argument not initialized via NCCL_COLLCONFIG_INITIALIZER");
  std::memcpy(&config, user, std::min(user->size, sizeof(config)));

  struct Row {
    const char* name;
    int value, minimum, maximum;
  };
  for (Row row : {Row{"minCTAs", config.minCTAs, 1, kMax},
                  Row{"maxCTAs", config.maxCTAs, 1, comm.fields.maxCTAs},
                  Row{"nvlsCTAs", config.nvlsCTAs, 1, kMax},
                  Row{"cgaClusterSize", config.cgaClusterSize, 0, kMax},
                  Row{"forceAlgSelection", config.forceAlgSelection, 0, 1},
                  Row{"CTAPolicy", config.CTAPolicy, 0, 3}})
    if (row.value != kUndefined && (row.value < row.minimum || row.value > row.maximum))
      return fail(StatusCode::kInvalidArgument, "Invalid config {} attribute value {}", row.name,
                  row.value);
  if (config.minCTAs != kUndefined && config.maxCTAs != kUndefined &&
      config.minCTAs > config.maxCTAs)
    return fail(StatusCode::kInvalidArgument,
                "Invalid config min/max channels attribute value {}/{}", config.minCTAs,
                config.maxCTAs);
  warn_of_unused_fields(config);
  if (config.algSelection != nullptr) result.algorithms = config.algSelection;
  result.force = config.forceAlgSelection != 0;
  result.min_ctas = config.minCTAs;
  result.max_ctas = config.maxCTAs;
  result.cta_policy = config.CTAPolicy;
  result.launch_event = config.launchCompletionEvent;
  return result;
}

namespace {

Status set_seconds(double seconds, const char* field, double* into) {
  if (seconds == RONDO_UNDEF_SECONDS) return ok_status();
  RONDO_CHECK_OK(seconds_above_zero(seconds, "rondoCommOptions_t", field));
  *into = std::min(seconds, kMaxSeconds);
  return ok_status();
}

}  // namespace

Result<CommOptions> make_options(const CommConfig& config, const rondoCommOptions_t* user) {
  CommOptions result = CommOptions::from_environment();
  result.name = config.comm_name;
  result.network = config.net_name;
  RONDO_TRY(result.device, gpu::device_for_new_rank());
  result.min_ctas = config.fields.minCTAs;
  result.max_ctas = config.fields.maxCTAs;
  result.copy_engines = (config.fields.CTAPolicy & NCCL_CTA_POLICY_ZERO) != 0;
  result.mixes_graphs = config.fields.graphUsageMode == 2;
  result.takes_turns = config.fields.launchOrderImplicit == 1;
  // A kernel may wait for a rank that still prepares its data, so it has a limit only on request.
  if (env::raw("RONDO_TIMEOUT")) result.kernel_seconds = result.timeout_seconds;
  if (user == nullptr) return result;
  if (user->magic != RONDO_OPTIONS_MAGIC || user->size < offsetof(rondoCommOptions_t, device))
    return fail(StatusCode::kInvalidArgument,
                "rondoCommOptions_t argument not initialized via RONDO_COMM_OPTIONS_INITIALIZER");
  rondoCommOptions_t options = RONDO_COMM_OPTIONS_INITIALIZER;
  std::memcpy(&options, user, std::min(user->size, sizeof(options)));
  switch (options.device) {
    case RONDO_UNDEF_INT:
    case rondoDeviceAuto:
      break;
    case rondoDeviceHost:
      result.device = gpu::kHostRank;
      break;
    case rondoDeviceCuda:
      if (result.device != gpu::kHostRank) break;
      return fail(StatusCode::kInvalidUsage,
                  "rondoDeviceCuda was requested, but {}; use rondoDeviceHost",
                  gpu_api() == nullptr ? gpu_absence() : "RONDO_DEVICE=host is set");
    default:
      return fail(StatusCode::kInvalidArgument, "rondoCommOptions_t: invalid device {}",
                  options.device);
  }
  if (options.reproducible != RONDO_UNDEF_INT) {
    if (options.reproducible != 0 && options.reproducible != 1)
      return fail(StatusCode::kInvalidArgument,
                  "rondoCommOptions_t: reproducible = {} is not 0 or 1", options.reproducible);
    result.reproducible = options.reproducible == 1;
  }
  RONDO_CHECK_OK(set_seconds(options.timeout, "timeout", &result.timeout_seconds));
  if (options.timeout != RONDO_UNDEF_SECONDS) result.kernel_seconds = result.timeout_seconds;
  RONDO_CHECK_OK(set_seconds(options.initTimeout, "initTimeout", &result.init_timeout_seconds));
  return result;
}

namespace {

constexpr int kNotSet = NCCL_CONFIG_UNDEF_INT;
static_assert(kSignals == 8, "the text of numRmaSig");

template <class Config>
struct UnusedField {
  const char* name;
  int Config::*field;
  int as_done;  // the value that asks for what Rondo does; kNotSet: none
  const char* instead;
};

constexpr UnusedField<ncclConfig_t> kOfCommunicators[] = {
    {"cgaClusterSize", &ncclConfig_t::cgaClusterSize, 0, "kernels use no thread block clusters"},
    {"splitShare", &ncclConfig_t::splitShare, 0,
     "children have memory and connections of their own; an idle communicator lends its GPU memory "
     "to others"},
    {"trafficClass", &ncclConfig_t::trafficClass, kNotSet,
     "set NCCL_IB_TC for RDMA, for all communicators of the process"},
    {"collnetEnable", &ncclConfig_t::collnetEnable, 0,
     "no algorithm sums in the network's switches"},
    {"shrinkShare", &ncclConfig_t::shrinkShare, 0,
     "children have memory and connections of their own"},
    {"nvlsCTAs", &ncclConfig_t::nvlsCTAs, kNotSet,
     "calls through NVLink's switch take their number from the planner, within maxCTAs"},
    {"nChannelsPerNetPeer", &ncclConfig_t::nChannelsPerNetPeer, kNotSet,
     "the planner chooses the channels between hosts, within minCTAs and maxCTAs"},
    {"nvlinkCentricSched", &ncclConfig_t::nvlinkCentricSched, 0,
     "messages have one order of peers"},
    {"numRmaCtx", &ncclConfig_t::numRmaCtx, 1, "puts and signals have one context"},
    {"maxP2pPeers", &ncclConfig_t::maxP2pPeers, kNotSet,
     "memory for a peer is made with its first message, so there is nothing to limit"},
    {"graphStreamOrdering", &ncclConfig_t::graphStreamOrdering, 1,
     "calls of a graph keep the order of their streams"},
    {"numRmaSig", &ncclConfig_t::numRmaSig, kSignals, "signals of a peer are numbered 0 to 7"},
    {"rmaEagerInit", &ncclConfig_t::rmaEagerInit, 0,
     "the first ncclCommWindowRegister makes what puts and signals use"},
    {"hostCftMode", &ncclConfig_t::hostCftMode, ncclHostCftDisable, "nothing uses CFT"},
    {"nvlsHostMode", &ncclConfig_t::nvlsHostMode, kNotSet,
     "set NCCL_NVLS_ENABLE: 1 allows calls through NVLink's switch, 0 forbids them"},
};

constexpr UnusedField<ncclCollConfig_t> kOfCalls[] = {
    {"nvlsCTAs", &ncclCollConfig_t::nvlsCTAs, kNotSet,
     "calls through NVLink's switch take their number from the planner, within maxCTAs"},
    {"cgaClusterSize", &ncclCollConfig_t::cgaClusterSize, 0,
     "kernels use no thread block clusters"},
};

// Reports each row of a table once.
template <class Config, std::size_t kRows>
class Reporter {
 public:
  explicit constexpr Reporter(const UnusedField<Config> (&rows)[kRows]) : rows_(rows) {}
  void report(const char* type, const Config& config) {
    for (std::size_t i = 0; i < kRows; ++i) {
      const UnusedField<Config>& row = rows_[i];
      const int value = config.*row.field;
      if (value == kNotSet || value == row.as_done || reported_[i].exchange(true)) continue;
      RONDO_WARN("{} of {} = {} has no effect: {}", row.name, type, value, row.instead);
    }
  }

 private:
  const UnusedField<Config> (&rows_)[kRows];
  std::atomic<bool> reported_[kRows]{};
};

}  // namespace

void warn_of_unused_fields(const ncclConfig_t& config) {
  static Reporter reporter(kOfCommunicators);
  reporter.report("ncclConfig_t", config);
}

void warn_of_unused_fields(const ncclCollConfig_t& config) {
  static Reporter reporter(kOfCalls);
  reporter.report("ncclCollConfig_t", config);
  static std::atomic<bool> tag_is_reported{false}, extensions_are_reported{false};
  if (config.userProfilerTag != 0 && !tag_is_reported.exchange(true))
    RONDO_WARN(
        "userProfilerTag of ncclCollConfig_t = {} has no effect: profiler plugins get no "
        "tag; use NVTX ranges around the call",
        config.userProfilerTag);
  if (config.ext != nullptr && !extensions_are_reported.exchange(true))
    RONDO_WARN(
        "ext of ncclCollConfig_t (vendor {}, option {}) has no effect: Rondo knows no "
        "options of vendors",
        config.ext->key.vendorId, config.ext->key.optionId);
}

}  // namespace rondo::api
