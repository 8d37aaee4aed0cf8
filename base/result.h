// SPDX-License-Identifier: Apache-2.0
// Result<T>: errors as values inside Rondo. The C API turns them into ncclResult_t.
//
// Guarantees: StatusCode has ncclResult_t's numbers, so the conversion is a cast. The function that
// detects an error writes its text: one sentence with the wrong value and the remedy.
// Cost: a Result<T> is a std::variant; never use it per element, per chunk or per spin.
//
//   Result<int> parse(std::string_view s);
//   RONDO_TRY(int port, parse(text));            // returns the error to the caller
//   return fail(StatusCode::kInvalidArgument, "port {} is not in 1..65535", port);
#pragma once

#include <fmt/format.h>

#include <cassert>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

namespace rondo {

enum class StatusCode : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
  kTimeout = 8,
};

struct [[nodiscard]] Error {
  StatusCode code = StatusCode::kInternalError;
  std::string text;
};

template <class... Args>
Error fail(StatusCode status, fmt::format_string<Args...> format, Args&&... args) {
  return Error{status, fmt::format(format, std::forward<Args>(args)...)};
}

// Like fail(kSystemError, ...), with ": <strerror(error_number)>" appended.
inline Error fail_errno_text(int error_number, std::string what) {
  return Error{StatusCode::kSystemError, std::move(what) + ": " + std::strerror(error_number)};
}
template <class... Args>
Error fail_errno(int error_number, fmt::format_string<Args...> format, Args&&... args) {
  return fail_errno_text(error_number, fmt::format(format, std::forward<Args>(args)...));
}

template <class T = std::monostate>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  Result() requires std::is_same_v<T, std::monostate> : state_(std::in_place_index<0>) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return assert(ok()), std::get<0>(state_); }
  const T& value() const& { return assert(ok()), std::get<0>(state_); }
  T&& value() && { return assert(ok()), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const { return assert(!ok()), std::get<1>(state_); }
  StatusCode code() const { return ok() ? StatusCode::kSuccess : error().code; }

 private:
  std::variant<T, Error> state_;
};

using Status = Result<std::monostate>;
inline Status ok_status() { return Status{}; }

#define RONDO_CONCAT_INNER(a, b) a##b
#define RONDO_CONCAT(a, b) RONDO_CONCAT_INNER(a, b)
#define RONDO_TRY_IMPL(tmp, declaration, expression) \
  auto tmp = (expression);                           \
  if (!tmp.ok()) return tmp.error();                 \
  declaration = std::move(tmp).value()
// RONDO_TRY(auto x, f()): x = the value of f(), or return f()'s error.
#define RONDO_TRY(declaration, expression) \
  RONDO_TRY_IMPL(RONDO_CONCAT(rondo_try_, __LINE__), declaration, expression)
// RONDO_CHECK_OK(f()): return f()'s error if it has one.
#define RONDO_CHECK_OK(expression)                                                   \
  do {                                                                               \
    if (auto rondo_done = (expression); !rondo_done.ok()) return rondo_done.error(); \
  } while (0)

}  // namespace rondo
