// SPDX-License-Identifier: Apache-2.0
// Streams and requests of rondo.h: each handle refers to a HostStream or a Completion.
#pragma once

#include <memory>

#include "api/handles.h"
#include "api/rondo.h"
#include "base/result.h"
#include "collectives/context/completion.h"
#include "collectives/host/host_stream.h"
#include "collectives/messages/tagged_messages.h"

namespace rondo::api {

// rondo.h's streams: each handle refers to a HostStream.
using StreamPin = HandleTable<HostStream>::Pin;

// The stream of a handle; an error if it is destroyed or was never a stream.
Result<StreamPin> find_stream(const void* stream, const char* function);
// The same without an error. Calls on GPUs must not be given a host stream.
bool is_host_stream(const void* stream);

// rondo.h's requests: each handle refers to a Completion.
struct Awaited {
  std::shared_ptr<Completion> completion;
  std::weak_ptr<TaggedMessages> messages;  // for messages only
  HostStream::Helper stream;               // for records of streams only
};
using RequestPin = HandleTable<Awaited>::Pin;

Result<rondoRequest_t> new_request(Awaited made, const char* function);

// The request of a handle; an error if it is freed or was never a request.
Result<RequestPin> find_request(const void* request, const char* function);

// `seconds` from now, at most a year; for 0 and less, now.
Result<std::chrono::steady_clock::time_point> deadline_in(double seconds, const char* function);

}  // namespace rondo::api
