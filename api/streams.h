// Host streams (rondo.h): a worker thread and the first error of its jobs, behind a handle.
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "api/handles.h"
#include "api/rondo.h"
#include "api/worker.h"
#include "base/result.h"

namespace rondo::api {

struct Stream {
  Worker worker;

  void note(const Done& result);  // keeps the first error
  std::optional<Error> first_error() const;
  std::optional<Error> take_first_error();

 private:
  mutable std::mutex mutex_;
  std::optional<Error> error_;
};

using StreamPin = HandleTable<Stream>::Pin;

// The rondo stream behind a handle; what is not alive or never was one is refused.
Result<StreamPin> find_stream(const void* stream, const char* function);

}  // namespace rondo::api
