// The one place where exceptions become errors: around every function of the C API, the work of a
// stream, a fiber and the body of every thread (base/thread.h).
//
// Guarantees: memory that is not there and threads that the system refuses are kSystemError, all
// else is kInternalError; the text names what was being done. No exception leaves guarded(): where
// even the text finds no memory, it is a short one that needs none. A cancelled thread goes on
// unwinding. Cost: nothing until something is thrown.
//
//   Status result = guarded("a call of rank 3", [&] { return run(job); });
#pragma once

#include <cxxabi.h>

#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace rondo {

// Only inside a handler, of any exception but abi::__forced_unwind.
Error error_of_exception(std::string_view doing) noexcept;

// body's Result, or what it threw as an Error, after on_thrown(error).
template <class Body, class OnThrown>
std::invoke_result_t<Body&> guarded(std::string_view doing, Body&& body, OnThrown&& on_thrown) {
  try {
    return body();
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (...) {
    Error error = error_of_exception(doing);
    on_thrown(error);
    return error;
  }
}
template <class Body>
std::invoke_result_t<Body&> guarded(std::string_view doing, Body&& body) {
  return guarded(doing, body, [](const Error&) {});
}

// The same text and status, or a short text where there is no memory for it.
Error copy_of(const Error& error) noexcept;

}  // namespace rondo
