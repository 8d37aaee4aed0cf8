// SPDX-License-Identifier: Apache-2.0
// guarded(): the one place where exceptions become errors. It is used around every function of the
// C API, the work of a stream, a fiber and the body of every thread (base/thread.h).
//
// Guarantees: lack of memory and a thread that the system refuses become kSystemError, all other
// exceptions kInternalError. The text names the operation. No exception leaves guarded(): if there
// is no memory even for the text, a short constant text replaces it. A cancelled thread continues
// to unwind. Cost: none until an exception is thrown.
//
//   Status result = guarded("a call of rank 3", [&] { return run(job); });
#pragma once

#include <cxxabi.h>

#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace rondo {

// Call it only inside a handler of any exception but abi::__forced_unwind.
Error error_of_exception(std::string_view doing) noexcept;

// Returns body's Result. If body throws, calls on_thrown(error) and returns the error.
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

// The same code and text; a short text if there is no memory for it.
Error copy_of(const Error& error) noexcept;

}  // namespace rondo
