// SPDX-License-Identifier: Apache-2.0
#include "api/config_unused.h"

#include <atomic>
#include <cstddef>

#include "base/log.h"
#include "transport/connection.h"

namespace rondo::api {
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
