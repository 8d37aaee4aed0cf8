// rondo.h's streams: each handle refers to a HostStream.
#pragma once

#include "api/handles.h"
#include "api/rondo.h"
#include "base/result.h"
#include "collectives/host/host_stream.h"

namespace rondo::api {

using StreamPin = HandleTable<HostStream>::Pin;

// The stream of a handle; an error if it is destroyed or was never a stream.
Result<StreamPin> find_stream(const void* stream, const char* function);
// The same without an error. Calls on GPUs must not be given a host stream.
bool is_host_stream(const void* stream);

}  // namespace rondo::api
