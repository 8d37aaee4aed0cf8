// SPDX-License-Identifier: Apache-2.0
// Reads an ncclConfig_t of any version and fills its undefined fields.
//
// Guarantees: accepts every size from 24 bytes (2.14), also larger than ours. Fields that the
// caller's version did not have count as undefined, whatever bytes they hold. In the result every
// field has a valid value, or is undefined if that is its default. Priority: the environment, then
// the caller, then the parent (split, shrink, grow) or the default.
//
//   Result<CommConfig> config = parse_config(user, nullptr);
//   if (config.value().fields.blocking) ...
#pragma once

#include <string>

#include "api/nccl.h"
#include "api/rondo.h"
#include "base/result.h"
#include "collectives/communicator/communicator.h"

namespace rondo::api {

struct CommConfig {
  ncclConfig_t fields;  // netName and commName are NULL: see the strings below
  std::string net_name;
  std::string comm_name;
  bool check_buffers = false;  // NCCL_CHECK_MODE
};

Result<CommConfig> parse_config(const ncclConfig_t* user, const CommConfig* parent);

// Options of one call; user == NULL: all undefined.
struct CallConfig {
  std::string algorithms;  // NCCL_ALGO's grammar; "": the planner chooses
  bool force = true;
  int min_ctas = NCCL_CONFIG_UNDEF_INT;
  int max_ctas = NCCL_CONFIG_UNDEF_INT;
  int cta_policy = NCCL_CONFIG_UNDEF_INT;
  cudaEvent_t launch_event = nullptr;  // recorded behind the call
};

Result<CallConfig> parse_call_config(const ncclCollConfig_t* user, const CommConfig& comm);

// The engine's CommOptions: the environment's values; `options` (may be NULL) overrides them.
// Names, CTA limits and CTA policy are from config.
Result<CommOptions> make_options(const CommConfig& config, const rondoCommOptions_t* options);

// Fields of ncclConfig_t and ncclCollConfig_t that have no effect in Rondo. A program that asks for
// what such a field does gets a WARN: the field, its value, and what it can do instead.
//
// Guarantees: one line per field and process; none for a value that asks for what Rondo does
// anyway. Fields that a child takes from its parent are not reported again. Cost: a comparison per
// field of a config that the program passes.
//
// config: as read_user() in config.cc leaves it: fields that the caller did not set are undefined.
void warn_of_unused_fields(const ncclConfig_t& config);
void warn_of_unused_fields(const ncclCollConfig_t& config);

}  // namespace rondo::api
