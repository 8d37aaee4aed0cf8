#include "api/errors.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>
#include <utility>

#include "base/log.h"

namespace rondo::api {
namespace {

struct Text {
  char bytes[2048] = "";

  void set(std::string_view text) {
    const std::size_t length = std::min(text.size(), sizeof(bytes) - 1);
    std::memcpy(bytes, text.data(), length);
    bytes[length] = '\0';
  }
};

// A thread that never fails has no texts: storage of every thread stays small.
struct Texts {
  Text own;     // what this thread's calls failed with
  Text answer;  // what this thread was last told
};
constinit thread_local Texts* own_texts = nullptr;
struct Reclaimer {
  ~Reclaimer() { delete std::exchange(own_texts, nullptr); }
};
// Calls made while a thread or the process ends make texts again, which then nobody frees.
Texts& texts() {
  if (own_texts == nullptr) {
    thread_local Reclaimer reclaimer;
    own_texts = new Texts;
  }
  return *own_texts;
}
std::mutex process_mutex;
Text process_text;

}  // namespace

ncclResult_t remember(const Error& error) {
  if (error.status == Status::kSuccess || error.status == Status::kInProgress)
    return to_nccl(error.status);
  texts().own.set(error.text);
  std::lock_guard lock(process_mutex);
  process_text.set(error.text);
  return to_nccl(error.status);
}

ncclResult_t report(const Error& error) {
  if (error.status != Status::kInProgress && !error.text.empty()) RONDO_WARN("{}", error.text);
  return remember(error);
}

const char* keep_for_caller(std::string_view text) {
  texts().answer.set(text);
  return texts().answer.bytes;
}

const char* last_error_text() {
  if (texts().own.bytes[0] != '\0') return keep_for_caller(texts().own.bytes);
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
