// SPDX-License-Identifier: Apache-2.0
// rondo.h's completion queues: tokens of finished requests.
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "api/arguments.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/streams.h"

namespace {

using namespace rondo;
using namespace rondo::api;

class TokenQueue {
 public:
  using Token = std::list<std::uint64_t>;  // a list of one element

  // Allocates nothing: a thread that finishes a request must not fail.
  void post(Token& token) {
    {
      std::lock_guard lock(mutex_);
      tokens_.splice(tokens_.end(), token);
    }
    arrived_.notify_one();
  }

  bool next(std::chrono::steady_clock::time_point deadline, std::uint64_t* token) {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_until(lock, deadline, [this] { return !tokens_.empty(); })) return false;
    *token = tokens_.front();
    tokens_.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  Token tokens_;
};

using Table = HandleTable<std::shared_ptr<TokenQueue>>;

Table& queues() {
  static auto& table = *new Table(HandleKind::kCompletions);  // outlives main
  return table;
}

// A shared_ptr, so that a wait holds no pin and a request may finish after the queue is destroyed.
Result<std::shared_ptr<TokenQueue>> find_queue(const void* queue, const char* function) {
  RONDO_CHECK_OK(not_null(queue, function, "completions"));
  auto found = queues().pin(queue);
  if (found.state != HandleState::kAlive)
    return fail(StatusCode::kInvalidArgument,
                "{} : {} is not a completion queue of this process that is alive", function, queue);
  return *found.pin;
}

}  // namespace

RONDO_FUNCTION(ncclResult_t, rondoCompletionsCreate, rondoCompletions_t* completions) {
  if (auto checked = not_null(completions, "CompletionsCreate", "completions"); !checked.ok())
    return report(checked);
  auto queue = std::make_unique<std::shared_ptr<TokenQueue>>(std::make_shared<TokenQueue>());
  *completions = static_cast<rondoCompletions_t>(queues().insert(std::move(queue)));
  if (*completions == nullptr)
    return report(fail(StatusCode::kInvalidUsage, "CompletionsCreate : too many queues are alive"));
  return ncclSuccess;
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoCompletionsWatch, rondoCompletions_t completions,
               rondoRequest_t request, uint64_t token) {
  constexpr const char* kFunction = "CompletionsWatch";
  auto queue = find_queue(completions, kFunction);
  if (!queue.ok()) return report(queue.error());
  auto pin = find_request(request, kFunction);
  if (!pin.ok()) return report(pin.error());
  auto kept = std::make_shared<TokenQueue::Token>(1, token);
  (*pin)->completion->watch([queue = *queue, kept = std::move(kept)] { queue->post(*kept); });
  HostStream::wake((*pin)->stream);
  return ncclSuccess;
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoCompletionsPost, rondoCompletions_t completions, uint64_t token) {
  auto queue = find_queue(completions, "CompletionsPost");
  if (!queue.ok()) return report(queue.error());
  TokenQueue::Token kept(1, token);
  (*queue)->post(kept);
  return ncclSuccess;
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoCompletionsNext, rondoCompletions_t completions, double seconds,
               uint64_t* token) {
  if (auto checked = not_null(token, "CompletionsNext", "token"); !checked.ok())
    return report(checked);
  auto queue = find_queue(completions, "CompletionsNext");
  if (!queue.ok()) return report(queue.error());
  const auto deadline = deadline_in(seconds, "CompletionsNext");
  if (!deadline.ok()) return report(deadline.error());
  return (*queue)->next(*deadline, token) ? ncclSuccess : ncclInProgress;
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoCompletionsDestroy, rondoCompletions_t completions) {
  if (auto queue = find_queue(completions, "CompletionsDestroy"); !queue.ok())
    return report(queue.error());
  HandleState state;
  if (!queues().remove(completions, &state))
    return report(fail(StatusCode::kInvalidArgument, "CompletionsDestroy : destroyed twice"));
  return ncclSuccess;
}
RONDO_CATCH
