#include "api/streams.h"

#include "api/arguments.h"
#include "api/errors.h"
#include "api/export.h"

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
