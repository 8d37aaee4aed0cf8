// SPDX-License-Identifier: Apache-2.0
#include "base/guard.h"

#include <exception>
#include <new>
#include <system_error>

namespace rondo {
namespace {

constexpr const char* kNoMemory = "out of memory";  // short enough for std::string's inline buffer

// Formatting may allocate, and so throw again.
template <class... Args>
Error with_text(StatusCode status, fmt::format_string<Args...> format, Args&&... args) noexcept {
  try {
    return fail(status, format, std::forward<Args>(args)...);
  } catch (...) {
    return Error{status, kNoMemory};
  }
}

}  // namespace

Error error_of_exception(std::string_view doing) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return with_text(StatusCode::kSystemError,
                     "{} : out of memory (ulimit -v and -d, a cgroup's limit, or the machine's)",
                     doing);
  } catch (const std::system_error& error) {
    return with_text(StatusCode::kSystemError, "{} : {}", doing, error.what());
  } catch (const std::exception& error) {
    return with_text(StatusCode::kInternalError, "{} : {}", doing, error.what());
  } catch (...) {
    return with_text(StatusCode::kInternalError, "{} : an exception of no known type", doing);
  }
}

Error copy_of(const Error& error) noexcept { return with_text(error.code, "{}", error.text); }

}  // namespace rondo
