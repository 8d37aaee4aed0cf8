// SPDX-License-Identifier: Apache-2.0
// Fields of ncclConfig_t and ncclCollConfig_t that have no effect in Rondo. A program that asks for
// what such a field does gets a WARN: the field, its value, and what it can do instead.
//
// Guarantees: one line per field and process; none for a value that asks for what Rondo does
// anyway. Fields that a child takes from its parent are not reported again. Cost: a comparison per
// field of a config that the program passes.
#pragma once

#include "api/nccl.h"

namespace rondo::api {

// config: as read_user() in config.cc leaves it: fields that the caller did not set are undefined.
void warn_of_unused_fields(const ncclConfig_t& config);
void warn_of_unused_fields(const ncclCollConfig_t& config);

}  // namespace rondo::api
