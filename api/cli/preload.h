// Where this installation has Rondo's libnccl.so.2: for `rondo preload` and `rondo run --preload`.
#pragma once

#include <string>

#include "base/result.h"

namespace rondo::cli {

// The absolute path of the library to preload; an error that says what to install if there is none.
Result<std::string> preload_library();

}  // namespace rondo::cli
