// SPDX-License-Identifier: Apache-2.0
// The collectives of nccl.h, plain and with per-call options.
#include "api/call_builder.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/group.h"
#include "api/usual_call.h"

using namespace rondo;
using namespace rondo::api;

namespace {

// which, function, reduces, rooted, send/receive on root only, send/receive hold all ranks' parts
constexpr CollectiveTraits kAllReduce{
    Collective::kAllReduce, "AllReduce", true, false, false, false, false, false};
constexpr CollectiveTraits kBroadcast{
    Collective::kBroadcast, "Broadcast", false, true, true, false, false, false};
constexpr CollectiveTraits kReduce{
    Collective::kReduce, "Reduce", true, true, false, true, false, false};
constexpr CollectiveTraits kAllGather{
    Collective::kAllGather, "AllGather", false, false, false, false, false, true};
constexpr CollectiveTraits kReduceScatter{
    Collective::kReduceScatter, "ReduceScatter", true, false, false, false, true, false};
constexpr CollectiveTraits kAllToAll{
    Collective::kAllToAll, "AlltoAll", false, false, false, false, true, true};
constexpr CollectiveTraits kGather{
    Collective::kGather, "Gather", false, true, false, true, false, true};
constexpr CollectiveTraits kScatter{
    Collective::kScatter, "Scatter", false, true, true, false, true, false};

ncclResult_t run(const CollectiveTraits& traits, const CollectiveArguments& arguments,
                 ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  ncclResult_t result;
  if (stream == nullptr && config == nullptr && run_usual_call(traits, arguments, comm, &result))
    return result;
  CommPin pin = pin_if_usable(comm);
  if (pin.get() == nullptr) {
    auto found = find_usable_comm(comm, traits.function);
    if (!found.ok()) return note_in_group(report(found.error()));
    pin = std::move(*found);
  }
  Request request;
  if (auto built = build_collective(*pin, traits, arguments, &request); !built.ok())
    return note_in_group(report(built.error()));
  if (config != nullptr)
    if (auto selected = apply_call_config(*pin, config, &request); !selected.ok())
      return note_in_group(report(selected.error()));
  request.call.stream = stream;
  return submit(std::move(pin), std::move(request), traits.function);
}

}  // namespace

RONDO_API_FUNCTION(ncclResult_t, AllReduceConfig, const void* sendbuff, void* recvbuff,
                   size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                   cudaStream_t stream, const ncclCollConfig_t* config) {
  RONDO_ENTER(AllReduceConfig, comm, count, datatype, op);
  return run(kAllReduce, {sendbuff, recvbuff, count, datatype, op, -1}, comm, stream, config);
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, AllReduce, const void* sendbuff, void* recvbuff, size_t count,
                   ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  RONDO_ENTER(AllReduce, comm, count, datatype, op);
  return run(kAllReduce, {sendbuff, recvbuff, count, datatype, op, -1}, comm, stream, nullptr);
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, BroadcastConfig, const void* sendbuff, void* recvbuff,
                   size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                   cudaStream_t stream, const ncclCollConfig_t* config) {
  RONDO_ENTER(BroadcastConfig, comm, count, datatype, -1, root);
  return run(kBroadcast, {sendbuff, recvbuff, count, datatype, ncclSum, root}, comm, stream,
             config);
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, Broadcast, const void* sendbuff, void* recvbuff, size_t count,
                   ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  RONDO_ENTER(Broadcast, comm, count, datatype, -1, root);
  return run(kBroadcast, {sendbuff, recvbuff, count, datatype, ncclSum, root}, comm, stream,
             nullptr);
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, Bcast, void* buff, size_t count, ncclDataType_t datatype, int root,
                   ncclComm_t comm, cudaStream_t stream) {
  RONDO_ENTER(Bcast, comm, count, datatype, -1, root);
  return run(kBroadcast, {buff, buff, count, datatype, ncclSum, root}, comm, stream, nullptr);
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, ReduceConfig, const void* sendbuff, void* recvbuff, size_t count,
                   ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                   cudaStream_t stream, const ncclCollConfig_t* config) {
  RONDO_ENTER(ReduceConfig, comm, count, datatype, op, root);
  return run(kReduce, {sendbuff, recvbuff, count, datatype, op, root}, comm, stream, config);
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, Reduce, const void* sendbuff, void* recvbuff, size_t count,
                   ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                   cudaStream_t stream) {
  RONDO_ENTER(Reduce, comm, count, datatype, op, root);
  return run(kReduce, {sendbuff, recvbuff, count, datatype, op, root}, comm, stream, nullptr);
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, AllGatherConfig, const void* sendbuff, void* recvbuff,
                   size_t sendcount, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                   const ncclCollConfig_t* config) {
  RONDO_ENTER(AllGatherConfig, comm, sendcount, datatype);
  return run(kAllGather, {sendbuff, recvbuff, sendcount, datatype, ncclSum, -1}, comm, stream,
             config);
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, AllGather, const void* sendbuff, void* recvbuff, size_t sendcount,
                   ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  RONDO_ENTER(AllGather, comm, sendcount, datatype);
  return run(kAllGather, {sendbuff, recvbuff, sendcount, datatype, ncclSum, -1}, comm, stream,
             nullptr);
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, ReduceScatterConfig, const void* sendbuff, void* recvbuff,
                   size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                   cudaStream_t stream, const ncclCollConfig_t* config) {
  RONDO_ENTER(ReduceScatterConfig, comm, recvcount, datatype, op);
  return run(kReduceScatter, {sendbuff, recvbuff, recvcount, datatype, op, -1}, comm, stream,
             config);
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, ReduceScatter, const void* sendbuff, void* recvbuff,
                   size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                   cudaStream_t stream) {
  RONDO_ENTER(ReduceScatter, comm, recvcount, datatype, op);
  return run(kReduceScatter, {sendbuff, recvbuff, recvcount, datatype, op, -1}, comm, stream,
             nullptr);
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, AlltoAllConfig, const void* sendbuff, void* recvbuff, size_t count,
                   ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                   const ncclCollConfig_t* config) {
  RONDO_ENTER(AlltoAllConfig, comm, count, datatype);
  return run(kAllToAll, {sendbuff, recvbuff, count, datatype, ncclSum, -1}, comm, stream, config);
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, AlltoAll, const void* sendbuff, void* recvbuff, size_t count,
                   ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  RONDO_ENTER(AlltoAll, comm, count, datatype);
  return run(kAllToAll, {sendbuff, recvbuff, count, datatype, ncclSum, -1}, comm, stream, nullptr);
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, GatherConfig, const void* sendbuff, void* recvbuff, size_t count,
                   ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
                   const ncclCollConfig_t* config) {
  RONDO_ENTER(GatherConfig, comm, count, datatype, -1, root);
  return run(kGather, {sendbuff, recvbuff, count, datatype, ncclSum, root}, comm, stream, config);
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, Gather, const void* sendbuff, void* recvbuff, size_t count,
                   ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  RONDO_ENTER(Gather, comm, count, datatype, -1, root);
  return run(kGather, {sendbuff, recvbuff, count, datatype, ncclSum, root}, comm, stream, nullptr);
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, ScatterConfig, const void* sendbuff, void* recvbuff, size_t count,
                   ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
                   const ncclCollConfig_t* config) {
  RONDO_ENTER(ScatterConfig, comm, count, datatype, -1, root);
  return run(kScatter, {sendbuff, recvbuff, count, datatype, ncclSum, root}, comm, stream, config);
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, Scatter, const void* sendbuff, void* recvbuff, size_t count,
                   ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  RONDO_ENTER(Scatter, comm, count, datatype, -1, root);
  return run(kScatter, {sendbuff, recvbuff, count, datatype, ncclSum, root}, comm, stream, nullptr);
}
RONDO_CATCH
