// rondo.h's requests: a Completion behind a handle.
#pragma once

#include <memory>

#include "api/handles.h"
#include "api/rondo.h"
#include "base/result.h"
#include "collectives/communicator/completion.h"
#include "collectives/host/tagged_messages.h"

namespace rondo::api {

struct Awaited {
  std::shared_ptr<Completion> completion;
  std::weak_ptr<TaggedMessages> messages;  // of a message
};
using RequestPin = HandleTable<Awaited>::Pin;

Result<rondoRequest_t> new_request(Awaited made, const char* function);

// The request behind a handle; what is not alive or never was one is refused.
Result<RequestPin> find_request(const void* request, const char* function);

// `seconds` from now, a year at most; now for 0 and less.
Result<std::chrono::steady_clock::time_point> deadline_in(double seconds, const char* function);

}  // namespace rondo::api
