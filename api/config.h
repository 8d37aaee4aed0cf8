// ncclConfig_t of any version, made whole.
//
// Guarantees: accepts every size from 24 bytes (2.14) to larger than ours; fields that the caller's
// version did not have are undefined whatever the bytes say; every field ends as a valid value or
// as undefined where "undefined" is the default. Order: the environment overrides the caller, the
// caller overrides the parent (split, shrink, grow) or the default.
//
//   Result<CommConfig> config = parse_config(user, nullptr);
//   if (config.value().fields.blocking) ...
#pragma once

#include <string>

#include "api/nccl.h"
#include "base/result.h"

namespace rondo::api {

struct CommConfig {
  ncclConfig_t fields;  // netName and commName are always NULL here: see below
  std::string net_name;
  std::string comm_name;
  bool check_buffers = false;  // NCCL_CHECK_MODE
};

Result<CommConfig> parse_config(const ncclConfig_t* user, const CommConfig* parent);

// A call's own options; user == NULL: all undefined.
struct CallConfig {
  std::string algorithms;  // NCCL_ALGO's grammar; "": whatever the planner likes
  bool force = true;
  int min_ctas = NCCL_CONFIG_UNDEF_INT;
  int max_ctas = NCCL_CONFIG_UNDEF_INT;
  int cta_policy = NCCL_CONFIG_UNDEF_INT;
};

Result<CallConfig> parse_call_config(const ncclCollConfig_t* user, const CommConfig& comm);

}  // namespace rondo::api
