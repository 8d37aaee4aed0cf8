// SPDX-License-Identifier: Apache-2.0
// ncclPutSignal, ncclSignal, ncclWaitSignal: one-sided writes into a peer's window.
#include "api/arguments.h"
#include "api/call_builder.h"
#include "api/comm.h"
#include "api/convert.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/group.h"
#include "transport/connection.h"

using namespace rondo;
using namespace rondo::api;

namespace {

Status check_signal(int peer, int signal, int context, int ranks, const char* function) {
  RONDO_CHECK_OK(peer_in_range(peer, ranks, function));
  if (signal < 0 || signal >= kSignals)
    return fail(StatusCode::kInvalidArgument, "{} : sigIdx {} is not in the 0..{} range", function,
                signal, kSignals - 1);
  if (context != 0)
    return fail(StatusCode::kInvalidArgument, "{} : ctx {} : the only context is 0", function,
                context);
  return ok_status();
}

Result<Request> signal_request(const Comm& comm, int peer, int signal, int context,
                               unsigned int flags, const char* function) {
  RONDO_CHECK_OK(check_signal(peer, signal, context, comm.size, function));
  if (flags != 0)
    return fail(StatusCode::kInvalidArgument, "{} : flags {:#x} : no flags are defined, use 0",
                function, flags);
  Request request;
  request.call.record.collective = Collective::kSignal;
  request.call.peer = peer;
  request.call.signal = signal;
  return request;
}

Result<Request> put_request(const Comm& comm, const void* local, std::size_t count,
                            ncclDataType_t type, std::size_t offset, ncclWindow_t window,
                            Request request) {
  constexpr const char* kFunction = "PutSignal";
  RONDO_TRY(const DataType element, to_data_type(type, kFunction));
  RONDO_TRY(const std::size_t bytes, buffer_bytes(count, element, 1, kFunction));
  RONDO_TRY(const auto found, find_window(comm.handle, window, kFunction));
  if (count > 0) RONDO_CHECK_OK(not_null(local, kFunction, "localbuff"));
  const int peer = request.call.peer;
  const std::size_t there = comm.engine()->window_bytes(found->number, peer);
  if (offset > there || bytes > there - offset)
    return fail(StatusCode::kInvalidArgument,
                "{} : peerWinOffset {} and {} bytes end beyond rank {}'s window of {} bytes",
                kFunction, offset, bytes, peer, there);
  request.call.record = {count, Collective::kPut, element, RedOp::kSum, 0, -1};
  request.call.send = local;
  request.call.window = found->number;
  request.call.offset = offset;
  return request;
}

Result<Request> wait_request(const Comm& comm, int count, const ncclWaitSignalDesc_t* wanted) {
  constexpr const char* kFunction = "WaitSignal";
  if (count < 1)
    return fail(StatusCode::kInvalidArgument, "{} : nDesc {} should be at least 1", kFunction,
                count);
  if (count > comm.size * kSignals)
    return fail(StatusCode::kInvalidArgument,
                "{} : nDesc {} is more than the maximum for {} ranks, {}", kFunction, count,
                comm.size, comm.size * kSignals);
  RONDO_CHECK_OK(not_null(wanted, kFunction, "signalDescs"));
  Request request;
  for (int i = 0; i < count; ++i) {
    RONDO_CHECK_OK(
        check_signal(wanted[i].peer, wanted[i].sigIdx, wanted[i].ctx, comm.size, kFunction));
    if (wanted[i].opCnt < 1)
      return fail(StatusCode::kInvalidArgument,
                  "{} : opCnt {} of descriptor {} should be at least 1", kFunction, wanted[i].opCnt,
                  i);
    Call call;
    call.record.collective = Collective::kWaitSignal;
    call.record.count = static_cast<std::uint64_t>(wanted[i].opCnt);
    call.peer = wanted[i].peer;
    call.signal = wanted[i].sigIdx;
    if (i == 0) {
      request.call = call;
    } else {
      request.more.push_back(call);
    }
  }
  return request;
}

template <class Build>
ncclResult_t run(ncclComm_t comm, cudaStream_t stream, const char* function, Build build) {
  auto pin = find_usable_comm(comm, function);
  if (!pin.ok()) return note_in_group(report(pin.error()));
  Result<Request> request = build(**pin);
  if (!request.ok()) return note_in_group(report(request.error()));
  request->call.stream = stream;
  return submit(std::move(*pin), std::move(*request), function);
}

}  // namespace

RONDO_API_FUNCTION(ncclResult_t, PutSignal, const void* localbuff, size_t count,
                   ncclDataType_t datatype, int peer, ncclWindow_t peerWin, size_t peerWinOffset,
                   int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream) {
  RONDO_ENTER(PutSignal, comm, count, datatype, -1, peer);
  return run(comm, stream, "PutSignal", [&](const Comm& c) -> Result<Request> {
    RONDO_TRY(Request request, signal_request(c, peer, sigIdx, ctx, flags, "PutSignal"));
    return put_request(c, localbuff, count, datatype, peerWinOffset, peerWin, std::move(request));
  });
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, Signal, int peer, int sigIdx, int ctx, unsigned int flags,
                   ncclComm_t comm, cudaStream_t stream) {
  RONDO_ENTER(Signal);
  return run(comm, stream, "Signal",
             [&](const Comm& c) { return signal_request(c, peer, sigIdx, ctx, flags, "Signal"); });
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, WaitSignal, int nDesc, ncclWaitSignalDesc_t* signalDescs,
                   ncclComm_t comm, cudaStream_t stream) {
  RONDO_ENTER(WaitSignal);
  return run(comm, stream, "WaitSignal",
             [&](const Comm& c) { return wait_request(c, nDesc, signalDescs); });
}
RONDO_CATCH
