// SPDX-License-Identifier: Apache-2.0
#include "api/streams.h"

#include "api/arguments.h"
#include "api/errors.h"
#include "api/export.h"
#include "base/guard.h"

namespace rondo::api {
namespace {

// Never destroyed: the program may exit while work is in flight.
HandleTable<HostStream>& streams() {
  static auto& table = *new HandleTable<HostStream>(HandleKind::kStream);
  return table;
}

Error refused_stream(HandleState state, const void* stream, const char* function) {
  switch (state) {
    case HandleState::kDestroyed:
      return fail(StatusCode::kInvalidArgument, "{} : stream {} has already been destroyed",
                  function, stream);
    case HandleState::kForked:
      return fail(StatusCode::kInvalidUsage,
                  "{} : stream {} belongs to the parent of this forked process; make a new one",
                  function, stream);
    default:
      return fail(
          StatusCode::kInvalidArgument,
          "{} : stream {} is not one of rondoStreamCreate; a communicator on the host takes "
          "those or NULL",
          function, stream);
  }
}

}  // namespace

Result<StreamPin> find_stream(const void* stream, const char* function) {
  RONDO_CHECK_OK(not_null(stream, function, "stream"));
  auto found = streams().pin(stream);
  if (found.state != HandleState::kAlive) return refused_stream(found.state, stream, function);
  return std::move(found.pin);
}

bool is_host_stream(const void* stream) {
  return stream != nullptr && streams().pin(stream).state == HandleState::kAlive;
}

}  // namespace rondo::api

using namespace rondo;
using namespace rondo::api;

RONDO_FUNCTION(ncclResult_t, rondoStreamCreate, rondoStream_t* stream) {
  if (auto checked = not_null(stream, "StreamCreate", "stream"); !checked.ok())
    return report(checked);
  auto made = HostStream::open();
  if (!made.ok()) return report(made);
  *stream = static_cast<rondoStream_t>(streams().insert(std::move(*made)));
  if (*stream == nullptr)
    return report(fail(StatusCode::kInvalidUsage, "StreamCreate : too many streams are alive"));
  return ncclSuccess;
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoStreamDestroy, rondoStream_t stream) {
  if (auto checked = not_null(stream, "StreamDestroy", "stream"); !checked.ok())
    return report(checked);
  HandleState state;
  auto removed = streams().remove(stream, &state);
  if (!removed) return report(refused_stream(state, stream, "StreamDestroy"));
  return ncclSuccess;  // the destructor runs the queued work
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoStreamSynchronize, rondoStream_t stream) {
  auto pin = find_stream(stream, "StreamSynchronize");
  if (!pin.ok()) return report(pin.error());
  auto finished = (*pin)->synchronize();
  return finished.ok() ? ncclSuccess : remember(finished.error());
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoStreamQuery, rondoStream_t stream) {
  auto pin = find_stream(stream, "StreamQuery");
  if (!pin.ok()) return report(pin.error());
  if (auto finished = (*pin)->first_error(); !finished.ok()) return remember(finished.error());
  return (*pin)->idle() ? ncclSuccess : ncclInProgress;
}
RONDO_CATCH

RONDO_FUNCTION(cudaStream_t, rondoStreamHandle, rondoStream_t stream) {
  return reinterpret_cast<cudaStream_t>(stream);
}
RONDO_CATCH_GIVING(nullptr)

namespace rondo::api {
namespace {

// Never destroyed: the program may exit while work is in flight.
HandleTable<Awaited>& requests() {
  static auto& table = *new HandleTable<Awaited>(HandleKind::kRequest);
  return table;
}

Error refused_request(HandleState state, const void* request, const char* function) {
  switch (state) {
    case HandleState::kDestroyed:
      return fail(StatusCode::kInvalidArgument, "{} : request {} has already been freed", function,
                  request);
    case HandleState::kForked:
      return fail(StatusCode::kInvalidUsage,
                  "{} : request {} belongs to the parent of this forked process", function,
                  request);
    default:
      return fail(StatusCode::kInvalidArgument, "{} : {} is not a request", function, request);
  }
}

ncclResult_t result_of(const Completion& finished) {
  return finished.result().ok() ? ncclSuccess : remember(finished.result().error());
}

}  // namespace

Result<rondoRequest_t> new_request(Awaited made, const char* function) {
  void* handle = requests().insert(std::make_unique<Awaited>(std::move(made)));
  if (handle == nullptr)
    return fail(StatusCode::kInvalidUsage, "{} : too many requests are alive; free finished ones",
                function);
  return static_cast<rondoRequest_t>(handle);
}

Result<RequestPin> find_request(const void* request, const char* function) {
  RONDO_CHECK_OK(not_null(request, function, "request"));
  auto found = requests().pin(request);
  if (found.state != HandleState::kAlive) return refused_request(found.state, request, function);
  return std::move(found.pin);
}

Result<std::chrono::steady_clock::time_point> deadline_in(double seconds, const char* function) {
  RONDO_CHECK_OK(seconds_to_wait(seconds, function, "seconds"));
  return std::chrono::steady_clock::now() + to_nanoseconds(seconds);
}

}  // namespace rondo::api

using namespace rondo;
using namespace rondo::api;

RONDO_FUNCTION(ncclResult_t, rondoStreamRecord, rondoStream_t stream, rondoRequest_t* request) {
  constexpr const char* kFunction = "StreamRecord";
  if (auto checked = not_null(request, kFunction, "request"); !checked.ok()) return report(checked);
  auto pin = find_stream(stream, kFunction);
  if (!pin.ok()) return report(pin.error());
  auto completion = std::make_shared<Completion>();
  auto made = new_request({completion, {}, (*pin)->helper()}, kFunction);
  if (!made.ok()) return report(made.error());
  const Status recorded = guarded(kFunction, [&] { return (*pin)->record(std::move(completion)); });
  HandleState state;
  if (!recorded.ok()) requests().remove(*made, &state);
  if (recorded.ok()) *request = *made;
  return report(recorded);
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoRequestTest, rondoRequest_t request) {
  auto pin = find_request(request, "RequestTest");
  if (!pin.ok()) return report(pin.error());
  return (*pin)->completion->finished() ? result_of(*(*pin)->completion) : ncclInProgress;
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoRequestWait, rondoRequest_t request, double seconds) {
  const auto deadline = deadline_in(seconds, "RequestWait");
  if (!deadline.ok()) return report(deadline.error());
  std::shared_ptr<Completion> completion;
  {
    auto pin = find_request(request, "RequestWait");
    if (!pin.ok()) return report(pin.error());
    completion = (*pin)->completion;
  }
  return completion->wait_until(*deadline) ? result_of(*completion) : ncclInProgress;
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoRequestRun, rondoRequest_t request, double seconds) {
  const auto deadline = deadline_in(seconds, "RequestRun");
  if (!deadline.ok()) return report(deadline.error());
  std::shared_ptr<Completion> completion;
  HostStream::Helper stream;
  {
    auto pin = find_request(request, "RequestRun");
    if (!pin.ok()) return report(pin.error());
    completion = (*pin)->completion;
    stream = (*pin)->stream;
  }
  HostStream::run_until(*completion, stream);
  return completion->wait_until(*deadline) ? result_of(*completion) : ncclInProgress;
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoRequestFree, rondoRequest_t request) {
  auto found = find_request(request, "RequestFree");
  if (!found.ok()) return report(found.error());
  *found = RequestPin();
  HandleState state;
  auto removed = requests().remove(request, &state);
  return removed ? ncclSuccess : report(refused_request(state, request, "RequestFree"));
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoRequestSource, rondoRequest_t request, int* rank) {
  constexpr const char* kFunction = "RequestSource";
  if (auto checked = not_null(rank, kFunction, "rank"); !checked.ok()) return report(checked);
  auto pin = find_request(request, kFunction);
  if (!pin.ok()) return report(pin.error());
  const Completion& completion = *(*pin)->completion;
  *rank = completion.finished() ? completion.source() : -1;
  return ncclSuccess;
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoRequestCancel, rondoRequest_t request, double waitedSeconds) {
  constexpr const char* kFunction = "RequestCancel";
  if (auto checked = seconds_to_wait(waitedSeconds, kFunction, "waitedSeconds"); !checked.ok())
    return report(checked);
  auto pin = find_request(request, kFunction);
  if (!pin.ok()) return report(pin.error());
  if ((*pin)->completion->finished()) return ncclSuccess;
  const auto messages = (*pin)->messages.lock();
  if (messages == nullptr)
    return report(fail(StatusCode::kInvalidUsage,
                       "{} : only messages can be cancelled; for calls of a stream set a timeout "
                       "(rondoCommSetTimeout) or abort the communicator",
                       kFunction));
  messages->cancel((*pin)->completion.get(), waitedSeconds);
  return ncclSuccess;
}
RONDO_CATCH
