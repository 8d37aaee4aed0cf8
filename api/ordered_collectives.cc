// SPDX-License-Identifier: Apache-2.0
// The reductions of rondo.h along a tree of leaves.
#include <bit>
#include <cstdint>

#include "api/arguments.h"
#include "api/call_builder.h"
#include "api/convert.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/group.h"

using namespace rondo;
using namespace rondo::api;

namespace {

struct OrderedCall {
  Collective which;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
  int leaves, first, n;
  rondoRounding_t rounding;
};

Status check_leaves(const OrderedCall& what) {
  constexpr int kMaxLeaves = 1 << CallRecord::kMaxLeavesLog2;
  if (what.leaves < 1 || what.leaves > kMaxLeaves ||
      !std::has_single_bit(static_cast<unsigned>(what.leaves)))
    return fail(StatusCode::kInvalidArgument, "{} : leaves is {}: give a power of two, {} at most",
                what.function, what.leaves, kMaxLeaves);
  if (what.first < 0 || what.n < 0)
    return fail(StatusCode::kInvalidArgument, "{} : first is {} and n is {}: give 0 or more",
                what.function, what.first, what.n);
  if (what.rounding != rondoRoundNode && what.rounding != rondoRoundOnce)
    return fail(StatusCode::kInvalidArgument,
                "{} : rounding is {}: give rondoRoundNode or rondoRoundOnce", what.function,
                static_cast<int>(what.rounding));
  return ok_status();
}

// The result may be where this rank's own part of its first leaf is, which is read before it is
// written; any other overlap would change leaves that are still to be read.
Status check_place(const OrderedCall& what, const Comm& comm, std::size_t part_bytes,
                   std::size_t send_bytes) {
  const auto send = reinterpret_cast<std::uintptr_t>(what.send);
  const auto receive = reinterpret_cast<std::uintptr_t>(what.receive);
  const bool scatters = what.which == Collective::kReduceScatterOrdered;
  const std::size_t own = scatters ? static_cast<std::size_t>(comm.rank) * part_bytes : 0;
  if (receive == send + own || receive + part_bytes <= send || send + send_bytes <= receive)
    return ok_status();
  return fail(StatusCode::kInvalidArgument,
              "{} : recvbuff {} overlaps sendbuff {}; in place it is {}", what.function,
              what.receive, what.send,
              scatters ? "sendbuff + rank * recvcount elements" : "sendbuff itself");
}

Status check_memory(const OrderedCall& what, const Comm& comm, bool has_result, CallRecord record) {
  const bool scatters = what.which == Collective::kReduceScatterOrdered;
  RONDO_TRY(const std::size_t leaf_bytes,
            buffer_bytes(what.count, record.type, scatters ? comm.size : 1, what.function));
  std::size_t send_bytes = 0;
  if (__builtin_mul_overflow(leaf_bytes, static_cast<std::size_t>(what.n), &send_bytes) ||
      send_bytes > kMaxBufferBytes)
    return fail(StatusCode::kInvalidArgument,
                "{} : {} leaves of {} bytes each are larger than any buffer", what.function, what.n,
                leaf_bytes);
  if (what.count == 0) return ok_status();
  if (what.n > 0) RONDO_CHECK_OK(not_null(what.send, what.function, "sendbuff"));
  if (has_result) RONDO_CHECK_OK(not_null(what.receive, what.function, "recvbuff"));
  const std::size_t part_bytes = what.count * size_of(record.type);
  if (what.n > 0 && has_result) RONDO_CHECK_OK(check_place(what, comm, part_bytes, send_bytes));
  if (!comm.config.check_buffers) return ok_status();
  if (what.n > 0)
    RONDO_CHECK_OK(check_buffer({what.send, send_bytes, false, "sendbuff"}, what.function));
  if (has_result)
    RONDO_CHECK_OK(check_buffer({what.receive, part_bytes, true, "recvbuff"}, what.function));
  return ok_status();
}

Result<Request> build(const OrderedCall& what, const Comm& comm) {
  Request request;
  CallRecord& record = request.call.record;
  record.collective = what.which;
  record.count = what.count;
  if (what.which == Collective::kReduceOrdered) {
    RONDO_CHECK_OK(root_in_range(what.root, comm.size, what.function));
    record.root = what.root;
  }
  RONDO_TRY(record.type, to_data_type(what.type, what.function));
  RONDO_CHECK_OK(set_reduction(comm, what.op, what.function, &request));
  RONDO_CHECK_OK(check_leaves(what));
  const bool has_result = what.which != Collective::kReduceOrdered || what.root == comm.rank;
  RONDO_CHECK_OK(check_memory(what, comm, has_result, record));
  record.set_leaves(std::countr_zero(static_cast<unsigned>(what.leaves)),
                    static_cast<Rounding>(what.rounding));
  request.call.run = {static_cast<std::uint32_t>(what.first), static_cast<std::uint32_t>(what.n)};
  request.call.send = what.n > 0 ? what.send : nullptr;
  request.call.receive = what.receive;
  return request;
}

ncclResult_t run(const OrderedCall& what, ncclComm_t comm, cudaStream_t stream) {
  auto pin = find_usable_comm(comm, what.function);
  if (!pin.ok()) return note_in_group(report(pin.error()));
  auto request = build(what, **pin);
  if (!request.ok()) return note_in_group(report(request.error()));
  request->call.stream = stream;
  return submit(std::move(*pin), std::move(*request), what.function);
}

}  // namespace

RONDO_FUNCTION(ncclResult_t, rondoAllReduceOrdered, const void* sendbuff, void* recvbuff,
               size_t count, ncclDataType_t datatype, ncclRedOp_t op, int leaves, int first, int n,
               rondoRounding_t rounding, ncclComm_t comm, cudaStream_t stream) {
  return run({Collective::kAllReduceOrdered, "AllReduceOrdered", sendbuff, recvbuff, count,
              datatype, op, -1, leaves, first, n, rounding},
             comm, stream);
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoReduceOrdered, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, ncclRedOp_t op, int root, int leaves, int first, int n,
               rondoRounding_t rounding, ncclComm_t comm, cudaStream_t stream) {
  return run({Collective::kReduceOrdered, "ReduceOrdered", sendbuff, recvbuff, count, datatype, op,
              root, leaves, first, n, rounding},
             comm, stream);
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoReduceScatterOrdered, const void* sendbuff, void* recvbuff,
               size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, int leaves, int first,
               int n, rondoRounding_t rounding, ncclComm_t comm, cudaStream_t stream) {
  return run({Collective::kReduceScatterOrdered, "ReduceScatterOrdered", sendbuff, recvbuff,
              recvcount, datatype, op, -1, leaves, first, n, rounding},
             comm, stream);
}
RONDO_CATCH
