// SPDX-License-Identifier: Apache-2.0
#include "api/errors.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>

#include "api/thread_record.h"
#include "base/guard.h"
#include "base/log.h"

namespace rondo::api {
namespace {

template <std::size_t kSize>
struct TextOf {
  char bytes[kSize] = "";

  const char* set(std::string_view text) {
    const std::size_t length = std::min(text.size(), sizeof(bytes) - 1);
    std::memmove(bytes, text.data(), length);
    bytes[length] = '\0';
    return bytes;
  }
};
using Text = TextOf<2048>;

// Allocated at a thread's first failure, so that thread-local storage stays small.
struct Texts {
  Text own;     // last error of this thread's calls
  Text answer;  // last text returned to this thread
};
constinit thread_local Texts* own_texts = nullptr;
// Replaces both in a thread that could not allocate them.
constinit thread_local TextOf<128> short_text;
struct Reclaimer {
  ~Reclaimer() { delete std::exchange(own_texts, nullptr); }
};
// Calls during the exit of a thread or process allocate again; that memory is never freed. Null if
// there is no memory.
Texts* texts() {
  if (own_texts == nullptr) {
    own_texts = new (std::nothrow) Texts;
    if (own_texts != nullptr) thread_local Reclaimer reclaimer;
  }
  return own_texts;
}
struct FailedChild {
  ncclComm_t parent = nullptr;
  std::size_t text = 0;  // a hash of the error
};
constinit thread_local FailedChild failed_child;
std::size_t hash_of_last_error() {
  return std::hash<std::string_view>()(std::string_view(last_error_text()));
}

std::mutex process_mutex;
Text process_text;

}  // namespace

ncclResult_t remember(const Error& error) {
  if (error.code == StatusCode::kSuccess || error.code == StatusCode::kInProgress)
    return to_nccl(error.code);
  if (Texts* own = texts()) {
    own->own.set(error.text);
  } else {
    short_text.set(error.text);
  }
  std::lock_guard lock(process_mutex);
  process_text.set(error.text);
  return to_nccl(error.code);
}

ncclResult_t report(const Error& error) {
  if (error.code != StatusCode::kInProgress && !error.text.empty()) RONDO_WARN("{}", error.text);
  return remember(error);
}

ncclResult_t report_exception(const char* function) {
  std::string_view name(function);
  for (const std::string_view prefix : {"pnccl", "nccl", "rondo"})
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      break;
    }
  const Error error = error_of_exception(name);
  const ncclResult_t result = remember(error);
  (void)guarded(name, [&] { return report(error), note_in_group(result), ok_status(); }).ok();
  return result;
}

ncclResult_t note_in_group(ncclResult_t result) {
  if (in_group() && thread_words.group_error == ncclSuccess && result != ncclInProgress)
    thread_words.group_error = result;
  return result;
}

void note_failed_child(ncclComm_t parent) { failed_child = {parent, hash_of_last_error()}; }

bool last_is_failed_child(ncclComm_t parent) {
  return failed_child.parent == parent && failed_child.text == hash_of_last_error();
}

const char* keep_for_caller(std::string_view text) {
  Texts* const own = texts();
  return own != nullptr ? own->answer.set(text) : short_text.set(text);
}

const char* last_error_text() {
  if (short_text.bytes[0] != '\0' && own_texts == nullptr) return short_text.bytes;
  if (own_texts != nullptr && own_texts->own.bytes[0] != '\0')
    return keep_for_caller(own_texts->own.bytes);
  std::lock_guard lock(process_mutex);
  return keep_for_caller(process_text.bytes);
}

const char* error_string(ncclResult_t result) {
  static constexpr const char* kTexts[] = {
      "no error",
      "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
      "unhandled system error (run with NCCL_DEBUG=INFO for details)",
      "internal error - please report this issue to the NCCL developers",
      "invalid argument (run with NCCL_DEBUG=WARN for details)",
      "invalid usage (run with NCCL_DEBUG=WARN for details)",
      "remote process exited or there was a network error",
      "NCCL operation in progress",
      "timeout",
  };
  const auto index = static_cast<unsigned>(result);
  return index < std::size(kTexts) ? kTexts[index] : "unknown result code";
}

}  // namespace rondo::api
