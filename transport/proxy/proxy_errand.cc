// SPDX-License-Identifier: Apache-2.0
#include "transport/proxy/proxy_errand.h"

#include <cassert>
#include <chrono>

#include "base/guard.h"

namespace rondo::gpu {
namespace {

constexpr std::chrono::milliseconds kErrandLook{2};  // checks the deadline and runs()

}  // namespace

bool ProxyErrands::advance() {
  if (step_ == nullptr || result_) return false;
  const auto over = guarded("an errand of a GPU's proxy", *step_, [](const Error&) {});
  if (over.ok() && !*over) return false;
  result_.emplace(over.ok() ? ok_status() : Status(over.error()));
  waiting_.store(false, std::memory_order_relaxed);
  over_.notify_all();
  return true;
}

bool ProxyErrands::progress() {
  if (!waiting_.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(mutex_);
  return advance();
}

Status ProxyErrands::run(const Step& step, const net::Deadline& deadline, const char* what) {
  assert(step != nullptr && what != nullptr);
  const std::lock_guard alone(one_at_a_time_);
  std::unique_lock lock(mutex_);
  step_ = &step;
  result_.reset();
  waiting_.store(true, std::memory_order_release);
  proxy_.ring();
  while (!result_) {
    if (!proxy_.runs()) {
      advance();
      if (result_) break;
    }
    over_.wait_for(lock, kErrandLook);
    if (result_) break;
    const bool aborted = deadline.aborted && deadline.aborted();
    if (!aborted && net::Clock::now() < deadline.at) continue;
    result_.emplace(aborted ? fail(StatusCode::kInvalidUsage, "aborted while {}", what)
                            : fail(StatusCode::kTimeout, "timed out while {}", what));
  }
  step_ = nullptr;
  waiting_.store(false, std::memory_order_relaxed);
  return *std::move(result_);
}

}  // namespace rondo::gpu
