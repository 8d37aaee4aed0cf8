// rondo.h's streams: the engine's host streams behind handles.
#pragma once

#include "api/handles.h"
#include "api/rondo.h"
#include "base/result.h"
#include "collectives/host/host_stream.h"

namespace rondo::api {

using StreamPin = HandleTable<HostStream>::Pin;

// The stream behind a handle; what is not alive or never was one is refused.
Result<StreamPin> find_stream(const void* stream, const char* function);
// Of calls on GPUs, where it must be none: without the text of an error.
bool is_host_stream(const void* stream);

}  // namespace rondo::api
