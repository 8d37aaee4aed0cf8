// SPDX-License-Identifier: Apache-2.0
// rondo.h's messages with tags: C interface of the engine's TaggedMessages.
#include "api/arguments.h"
#include "api/call_builder.h"
#include "api/comm.h"
#include "api/convert.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/group.h"
#include "api/streams.h"
#include "base/env.h"
#include "base/guard.h"

using namespace rondo;
using namespace rondo::api;

namespace {

// Runs in its turn in the communicator's queue, like a split.
Status open_messages(Comm& comm) {
  if (comm.tagged_messages() != nullptr) return ok_status();
  RONDO_TRY(auto child, duplicate(*comm.engine(), [&comm] { return comm.ended(); }));
  RONDO_TRY(auto messages,
            TaggedMessages::open(std::move(child),
                                 static_cast<std::size_t>(env::get_int("RONDO_EAGER_BYTES"))));
  comm.set_tagged_messages(std::move(messages));
  return ok_status();
}

struct TaggedMessage {
  const char* function;
  const void* buffer;
  std::size_t count;
  ncclDataType_t type;
  int peer, tag;
};

// start(messages, envelope, bytes) sends or receives.
template <class Start>
ncclResult_t run(const TaggedMessage& message, ncclComm_t comm, rondoRequest_t* request,
                 Start start) {
  const auto begun = [&]() -> Result<rondoRequest_t> {
    RONDO_CHECK_OK(not_null(request, message.function, "request"));
    RONDO_TRY(CommPin pin, find_usable_comm(comm, message.function));
    RONDO_TRY(const DataType type, to_data_type(message.type, message.function));
    if (message.count > 0) RONDO_CHECK_OK(not_null(message.buffer, message.function, "buffer"));
    RONDO_CHECK_OK(buffer_bytes(message.count, type, 1, message.function));
    const auto messages = pin->tagged_messages();
    if (messages == nullptr)
      return fail(StatusCode::kInvalidUsage, "{} : call rondoCommOpenMessages on all ranks first",
                  message.function);
    RONDO_TRY(auto completion,
              start(*messages, TaggedMessages::Envelope{message.peer, message.tag, type},
                    message.count * size_of(type)));
    auto made = guarded(message.function, [&] {
      return new_request({completion, messages, {}}, message.function);
    });
    if (!made.ok()) messages->cancel(completion.get(), 0);  // the caller has no request
    return made;
  }();
  if (begun.ok()) *request = *begun;
  return report(begun);
}

}  // namespace

RONDO_FUNCTION(ncclResult_t, rondoCommOpenMessages, ncclComm_t comm) {
  auto pin = find_usable_comm(comm, "CommOpenMessages");
  if (!pin.ok()) return report(pin.error());
  SetUp work;
  Comm* opened = pin->get();
  work.parent = std::move(*pin);
  work.blocking = opened->blocking();
  work.run = [opened] { return open_messages(*opened); };
  work.cancel = [] {};
  return submit_set_up(std::move(work));
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoIsend, const void* buffer, size_t count, ncclDataType_t datatype,
               int peer, int tag, ncclComm_t comm, rondoRequest_t* request) {
  return run({"Isend", buffer, count, datatype, peer, tag}, comm, request,
             [&](TaggedMessages& messages, const TaggedMessages::Envelope& to, std::size_t bytes) {
               return messages.send(to, buffer, bytes);
             });
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoIrecv, void* buffer, size_t count, ncclDataType_t datatype,
               int peer, int tag, ncclComm_t comm, rondoRequest_t* request) {
  return run({"Irecv", buffer, count, datatype, peer, tag}, comm, request,
             [&](TaggedMessages& messages, const TaggedMessages::Envelope& from,
                 std::size_t bytes) { return messages.receive(from, buffer, bytes); });
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoCommFlushMessages, ncclComm_t comm, double seconds) {
  const auto deadline = deadline_in(seconds, "CommFlushMessages");
  if (!deadline.ok()) return report(deadline.error());
  auto pin = find_made_comm(comm, "CommFlushMessages");
  if (!pin.ok()) return report(pin.error());
  const auto messages = (*pin)->tagged_messages();
  if (messages == nullptr || messages->flush(*deadline)) return ncclSuccess;
  return ncclInProgress;
}
RONDO_CATCH
