// rondo.h's requests: an engine's Completion behind a handle.
#pragma once

#include <memory>

#include "api/handles.h"
#include "api/rondo.h"
#include "base/result.h"
#include "collectives/completion.h"

namespace rondo::api {

using RequestPin = HandleTable<std::shared_ptr<Completion>>::Pin;

Result<rondoRequest_t> new_request(std::shared_ptr<Completion> completion, const char* function);

// The request behind a handle; what is not alive or never was one is refused.
Result<RequestPin> find_request(const void* request, const char* function);

// `seconds` from now; what no clock can count is far away.
std::chrono::steady_clock::time_point deadline_in(double seconds);

}  // namespace rondo::api
