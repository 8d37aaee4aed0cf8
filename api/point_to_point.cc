// SPDX-License-Identifier: Apache-2.0
// ncclSend and ncclRecv. Outside a group they wait for their peer's call before they return; in a
// group all of them progress together.
#include "api/arguments.h"
#include "api/call_builder.h"
#include "api/convert.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/group.h"

using namespace rondo;
using namespace rondo::api;

namespace {

struct Message {
  Collective which;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  ncclDataType_t type;
  int peer;
};

Result<Request> build(const Comm& comm, const Message& message) {
  Request request;
  CallRecord& record = request.call.record;
  RONDO_CHECK_OK(peer_in_range(message.peer, comm.size, message.function));
  RONDO_TRY(record.type, to_data_type(message.type, message.function));
  RONDO_TRY(const std::size_t bytes, buffer_bytes(message.count, record.type, 1, message.function));
  if (message.count > 0) {
    const bool sends = message.which == Collective::kSend;
    RONDO_CHECK_OK(not_null(sends ? message.send : message.receive, message.function,
                            sends ? "sendbuff" : "recvbuff"));
    if (comm.config.check_buffers && comm.engine()->options().device < 0)
      RONDO_CHECK_OK(check_buffer(
          {sends ? message.send : message.receive, bytes, !sends, sends ? "sendbuff" : "recvbuff"},
          message.function));
  }
  record.collective = message.which;
  record.count = message.count;
  request.call.send = message.send;
  request.call.receive = message.receive;
  request.call.peer = message.peer;
  return request;
}

ncclResult_t run(const Message& message, ncclComm_t comm, cudaStream_t stream) {
  auto pin = find_usable_comm(comm, message.function);
  if (!pin.ok()) return note_in_group(report(pin.error()));
  auto request = build(**pin, message);
  if (!request.ok()) return note_in_group(report(request.error()));
  request->call.stream = stream;
  return submit(std::move(*pin), std::move(*request), message.function);
}

}  // namespace

RONDO_API_FUNCTION(ncclResult_t, Send, const void* sendbuff, size_t count, ncclDataType_t datatype,
                   int peer, ncclComm_t comm, cudaStream_t stream) {
  RONDO_ENTER(Send, comm, count, datatype, -1, peer);
  return run({Collective::kSend, "Send", sendbuff, nullptr, count, datatype, peer}, comm, stream);
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, Recv, void* recvbuff, size_t count, ncclDataType_t datatype,
                   int peer, ncclComm_t comm, cudaStream_t stream) {
  RONDO_ENTER(Recv, comm, count, datatype, -1, peer);
  return run({Collective::kRecv, "Recv", nullptr, recvbuff, count, datatype, peer}, comm, stream);
}
RONDO_CATCH
