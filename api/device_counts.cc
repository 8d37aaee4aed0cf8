// SPDX-License-Identifier: Apache-2.0
// rondoAllToAllvDevice: an all-to-all whose counts and offsets are in the memory of the rank's GPU
// (kernels/cuda/counted_messages.h); on host memory rondoAllToAllv.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "api/arguments.h"
#include "api/call_builder.h"
#include "api/convert.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/group.h"
#include "collectives/context/gpu_rank.h"
#include "kernels/cuda/counted_message_args.h"

using namespace rondo;
using namespace rondo::api;

namespace {

constexpr const char* kFunction = "AllToAllvDevice";
using Numbers = std::vector<std::size_t>;
static_assert(sizeof(std::size_t) == sizeof(std::uint64_t));

struct CountedArguments {
  const void* send;
  const std::size_t *send_counts, *send_offsets;
  void* receive;
  const std::size_t *receive_counts, *receive_offsets;
  std::size_t *received, largest;
  ncclDataType_t type;
  cudaStream_t stream;
};

Result<DataType> check(const CountedArguments& given, const Comm& comm) {
  RONDO_TRY(const DataType type, to_data_type(given.type, kFunction));
  RONDO_CHECK_OK(not_null(given.send, kFunction, "sendbuff"));
  RONDO_CHECK_OK(not_null(given.send_counts, kFunction, "sendcounts"));
  RONDO_CHECK_OK(not_null(given.receive, kFunction, "recvbuff"));
  if (given.largest == 0)
    return fail(StatusCode::kInvalidArgument,
                "{} : maxcount is 0; give the largest count that any rank may send to another",
                kFunction);
  RONDO_CHECK_OK(buffer_bytes(given.largest, type, comm.size, kFunction));
  return type;
}

// ---- On GPUs -----------------------------------------------------------------------------------

// Without displacements a buffer has a place of the largest size for each part; else its size is
// unknown, and only its begin is compared.
Status check_not_in_place(const CountedArguments& given, DataType type, int ranks) {
  const std::size_t whole = given.largest * size_of(type) * static_cast<std::size_t>(ranks);
  const auto* const send = static_cast<const std::byte*>(given.send);
  const auto* const receive = static_cast<const std::byte*>(given.receive);
  const auto holds = [&](const std::byte* buffer, const std::size_t* offsets, const std::byte* at) {
    return std::less_equal<>()(buffer, at) &&
           static_cast<std::size_t>(at - buffer) < (offsets == nullptr ? whole : 1);
  };
  if (!holds(send, given.send_offsets, receive) && !holds(receive, given.receive_offsets, send))
    return ok_status();
  return fail(StatusCode::kInvalidArgument,
              "{} : sendbuff {} and recvbuff {} overlap; this call does not work in place",
              kFunction, given.send, given.receive);
}

const std::uint64_t* words(const std::size_t* numbers) {
  return reinterpret_cast<const std::uint64_t*>(numbers);
}

Result<Request> on_gpu(const CountedArguments& given, DataType type, int ranks,
                       const gpu::GpuRank& rank) {
  if (!rank.may_count_on_device())
    return fail(StatusCode::kInvalidUsage,
                "{} : kernels do not move the messages between all of these ranks (processes share "
                "a GPU, or RONDO_GPU_RELAY or P2P leave them to the host): give every process GPUs "
                "of its own, or copy the counts to the host and call rondoAllToAllv",
                kFunction);
  RONDO_CHECK_OK(check_not_in_place(given, type, ranks));
  Request request;
  Call& call = request.call;
  call.record.collective = Collective::kAllToAllV;
  call.record.type = type;
  call.record.count = given.largest;
  call.send = given.send;
  call.receive = given.receive;
  call.stream = given.stream;
  call.counts = std::make_shared<cuda::DeviceCounts>();
  call.counts->sent = words(given.send_counts);
  call.counts->sent_at = words(given.send_offsets);
  call.counts->expected = words(given.receive_counts);
  call.counts->received_at = words(given.receive_offsets);
  call.counts->received = reinterpret_cast<std::uint64_t*>(given.received);
  return request;
}

// ---- On host memory ----------------------------------------------------------------------------

// The caller's offsets, or a place of the largest size for each part.
Numbers offsets(const std::size_t* given, std::size_t largest, int ranks) {
  Numbers all(static_cast<std::size_t>(ranks));
  for (std::size_t p = 0; p < all.size(); ++p) all[p] = given != nullptr ? given[p] : p * largest;
  return all;
}

Result<Numbers> counts(const std::size_t* given, const CountedArguments& call, const Comm& comm,
                       const char* name) {
  Numbers all(given, given + comm.size);
  const auto large =
      std::find_if(all.begin(), all.end(), [&](std::size_t one) { return one > call.largest; });
  if (large == all.end()) return all;
  return fail(StatusCode::kInvalidArgument, "{} : {}[{}] = {} is more than maxcount {}", kFunction,
              name, large - all.begin(), *large, call.largest);
}

// What the others send to this rank.
ncclResult_t ask_for_counts(const CountedArguments& given, const Comm& comm, const Numbers& sent,
                            Numbers* expected) {
  if (in_group() || given.stream != nullptr || !comm.blocking())
    return report(fail(StatusCode::kInvalidUsage,
                       "{} : recvcounts is NULL: on host memory this needs a NULL stream, no "
                       "group, and a blocking communicator",
                       kFunction));
  expected->resize(sent.size());
  return ncclAlltoAll(sent.data(), expected->data(), 1, ncclUint64, comm.handle, nullptr);
}

ncclResult_t on_host(const CountedArguments& given, const Comm& comm) {
  const auto sent = counts(given.send_counts, given, comm, "sendcounts");
  if (!sent.ok()) return note_in_group(report(sent.error()));
  Numbers expected;
  if (given.receive_counts == nullptr) {
    const ncclResult_t asked = ask_for_counts(given, comm, *sent, &expected);
    if (asked != ncclSuccess) return note_in_group(asked);
  } else {
    auto own = counts(given.receive_counts, given, comm, "recvcounts");
    if (!own.ok()) return note_in_group(report(own.error()));
    expected = std::move(*own);
  }
  const Numbers sent_at = offsets(given.send_offsets, given.largest, comm.size);
  const Numbers received_at = offsets(given.receive_offsets, given.largest, comm.size);
  const ncclResult_t result =
      rondoAllToAllv(given.send, sent->data(), sent_at.data(), given.receive, expected.data(),
                     received_at.data(), given.type, comm.handle, given.stream);
  if (given.received != nullptr && (result == ncclSuccess || result == ncclInProgress))
    std::copy(expected.begin(), expected.end(), given.received);
  return result;
}

ncclResult_t run_counted(const CountedArguments& given, ncclComm_t comm) {
  auto pin = find_usable_comm(comm, kFunction);
  if (!pin.ok()) return note_in_group(report(pin.error()));
  const auto type = check(given, **pin);
  if (!type.ok()) return note_in_group(report(type.error()));
  const gpu::GpuRank* const rank = gpu_rank_of(*(*pin)->engine());
  if (rank == nullptr) return on_host(given, **pin);
  auto request = on_gpu(given, *type, (*pin)->size, *rank);
  if (!request.ok()) return note_in_group(report(request.error()));
  return submit(std::move(*pin), std::move(*request), kFunction);
}

}  // namespace

RONDO_FUNCTION(ncclResult_t, rondoAllToAllvDevice, const void* sendbuff, const size_t* sendcounts,
               const size_t* sdispls, void* recvbuff, const size_t* recvcounts,
               const size_t* rdispls, size_t* received, size_t maxcount, ncclDataType_t datatype,
               ncclComm_t comm, cudaStream_t stream) {
  return run_counted({sendbuff, sendcounts, sdispls, recvbuff, recvcounts, rdispls, received,
                      maxcount, datatype, stream},
                     comm);
}
RONDO_CATCH
