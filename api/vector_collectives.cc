// The collectives of rondo.h: a count per rank, and the barrier.
//
// The engine is given every one of them in the shape of an all-to-all: what goes to each rank and
// what comes from each (collectives/call.h). Displacements that the caller does not choose are
// those of parts lying back to back.
#include <memory>
#include <numeric>
#include <vector>

#include "api/arguments.h"
#include "api/call_builder.h"
#include "api/convert.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/group.h"

using namespace rondo;
using namespace rondo::api;

namespace {

using Sizes = std::vector<std::size_t>;

// One side of the call: what the caller gave, and how to name it in an error.
struct Parts {
  const std::size_t* counts;
  const std::size_t* displacements;
  const char* counts_name;
  const char* displacements_name;
};

// Copies the caller's arrays; the last byte of every part must be a byte of some buffer.
Done read_parts(const Parts& parts, int ranks, DataType type, const char* function, Sizes* counts,
                Sizes* displacements) {
  RONDO_CHECK_OK(not_null(parts.counts, function, parts.counts_name));
  RONDO_CHECK_OK(not_null(parts.displacements, function, parts.displacements_name));
  for (int r = 0; r < ranks; ++r) {
    std::size_t end = 0;
    if (__builtin_add_overflow(parts.counts[r], parts.displacements[r], &end))
      return fail(Status::kInvalidArgument, "{} : {}[{}] + {}[{}] is larger than any buffer",
                  function, parts.counts_name, r, parts.displacements_name, r);
    RONDO_CHECK_OK(buffer_bytes(end, type, 1, function));
  }
  counts->assign(parts.counts, parts.counts + ranks);
  displacements->assign(parts.displacements, parts.displacements + ranks);
  return done();
}

Sizes only(int ranks, int at, std::size_t count) {
  Sizes counts(static_cast<std::size_t>(ranks), 0);
  counts[static_cast<std::size_t>(at)] = count;
  return counts;
}

Sizes zeros(int ranks) { return Sizes(static_cast<std::size_t>(ranks), 0); }

struct VectorCall {
  Collective which;
  const char* function;
  const void* send;
  void* receive;
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int root = -1;
};

// fill(comm, type, counts) reads the caller's counts.
template <class Fill>
ncclResult_t run(const VectorCall& what, ncclComm_t comm, cudaStream_t stream, Fill fill) {
  auto pin = find_usable_comm(comm, what.function);
  if (!pin.ok()) return note_in_group(report(pin.error()));
  Request request;
  const Done built = [&]() -> Done {
    CallRecord& record = request.call.record;
    const bool rooted = what.which == Collective::kGatherV || what.which == Collective::kScatterV;
    if (rooted) RONDO_CHECK_OK(root_in_range(what.root, (*pin)->size, what.function));
    RONDO_TRY(record.type, to_data_type(what.type, what.function));
    if (what.which == Collective::kReduceScatterV)
      RONDO_CHECK_OK(set_reduction(**pin, what.op, what.function, &request));
    record.collective = what.which;
    record.root = what.root;
    auto counts = std::make_shared<VectorCounts>();
    RONDO_CHECK_OK(fill(**pin, record.type, *counts));
    if (std::accumulate(counts->send_counts.begin(), counts->send_counts.end(), std::size_t{0}) > 0)
      RONDO_CHECK_OK(not_null(what.send, what.function, "sendbuff"));
    if (std::accumulate(counts->receive_counts.begin(), counts->receive_counts.end(),
                        std::size_t{0}) > 0)
      RONDO_CHECK_OK(not_null(what.receive, what.function, "recvbuff"));
    request.call.vectors = std::move(counts);
    request.call.send = what.send;
    request.call.receive = what.receive;
    return done();
  }();
  if (!built.ok()) return note_in_group(report(built.error()));
  request.stream = stream;
  return submit(std::move(*pin), std::move(request), what.function);
}

}  // namespace

RONDO_EXPORT ncclResult_t rondoAllToAllv(const void* sendbuff, const size_t* sendcounts,
                                         const size_t* sdispls, void* recvbuff,
                                         const size_t* recvcounts, const size_t* rdispls,
                                         ncclDataType_t datatype, ncclComm_t comm,
                                         cudaStream_t stream) {
  constexpr const char* kFunction = "AllToAllv";
  return run(
      {Collective::kAllToAllV, kFunction, sendbuff, recvbuff, datatype}, comm, stream,
      [&](const Comm& c, DataType type, VectorCounts& counts) -> Done {
        RONDO_CHECK_OK(read_parts({sendcounts, sdispls, "sendcounts", "sdispls"}, c.size, type,
                                  kFunction, &counts.send_counts, &counts.send_displacements));
        return read_parts({recvcounts, rdispls, "recvcounts", "rdispls"}, c.size, type, kFunction,
                          &counts.receive_counts, &counts.receive_displacements);
      });
}

RONDO_EXPORT ncclResult_t rondoAllGatherv(const void* sendbuff, size_t sendcount, void* recvbuff,
                                          const size_t* recvcounts, const size_t* displs,
                                          ncclDataType_t datatype, ncclComm_t comm,
                                          cudaStream_t stream) {
  constexpr const char* kFunction = "AllGatherv";
  return run({Collective::kAllGatherV, kFunction, sendbuff, recvbuff, datatype}, comm, stream,
             [&](const Comm& c, DataType type, VectorCounts& counts) -> Done {
               RONDO_CHECK_OK(read_parts({recvcounts, displs, "recvcounts", "displs"}, c.size, type,
                                         kFunction, &counts.receive_counts,
                                         &counts.receive_displacements));
               if (recvcounts[c.rank] != sendcount)
                 return fail(Status::kInvalidArgument,
                             "{} : sendcount {} is not recvcounts[{}] = {}", kFunction, sendcount,
                             c.rank, recvcounts[c.rank]);
               counts.send_counts.assign(static_cast<std::size_t>(c.size), sendcount);
               counts.send_displacements = zeros(c.size);
               return done();
             });
}

RONDO_EXPORT ncclResult_t rondoReduceScatterv(const void* sendbuff, void* recvbuff,
                                              const size_t* recvcounts, ncclDataType_t datatype,
                                              ncclRedOp_t op, ncclComm_t comm,
                                              cudaStream_t stream) {
  constexpr const char* kFunction = "ReduceScatterv";
  return run(
      {Collective::kReduceScatterV, kFunction, sendbuff, recvbuff, datatype, op}, comm, stream,
      [&](const Comm& c, DataType type, VectorCounts& counts) -> Done {
        RONDO_CHECK_OK(not_null(recvcounts, kFunction, "recvcounts"));
        Sizes starts = zeros(c.size);
        for (int r = 1; r < c.size; ++r)
          if (__builtin_add_overflow(starts[r - 1], recvcounts[r - 1], &starts[r]))
            return fail(Status::kInvalidArgument,
                        "{} : the sum of recvcounts is larger than any buffer", kFunction);
        RONDO_CHECK_OK(read_parts({recvcounts, starts.data(), "recvcounts", "displs"}, c.size, type,
                                  kFunction, &counts.send_counts, &counts.send_displacements));
        counts.receive_counts.assign(static_cast<std::size_t>(c.size), recvcounts[c.rank]);
        counts.receive_displacements = zeros(c.size);
        return done();
      });
}

RONDO_EXPORT ncclResult_t rondoGatherv(const void* sendbuff, size_t sendcount, void* recvbuff,
                                       const size_t* recvcounts, const size_t* displs,
                                       ncclDataType_t datatype, int root, ncclComm_t comm,
                                       cudaStream_t stream) {
  constexpr const char* kFunction = "Gatherv";
  return run({Collective::kGatherV, kFunction, sendbuff, recvbuff, datatype, ncclSum, root}, comm,
             stream, [&](const Comm& c, DataType type, VectorCounts& counts) -> Done {
               RONDO_CHECK_OK(buffer_bytes(sendcount, type, 1, kFunction));
               counts.send_counts = only(c.size, root, sendcount);
               counts.send_displacements = zeros(c.size);
               if (c.rank != root) return done();
               return read_parts({recvcounts, displs, "recvcounts", "displs"}, c.size, type,
                                 kFunction, &counts.receive_counts, &counts.receive_displacements);
             });
}

RONDO_EXPORT ncclResult_t rondoScatterv(const void* sendbuff, const size_t* sendcounts,
                                        const size_t* displs, void* recvbuff, size_t recvcount,
                                        ncclDataType_t datatype, int root, ncclComm_t comm,
                                        cudaStream_t stream) {
  constexpr const char* kFunction = "Scatterv";
  return run({Collective::kScatterV, kFunction, sendbuff, recvbuff, datatype, ncclSum, root}, comm,
             stream, [&](const Comm& c, DataType type, VectorCounts& counts) -> Done {
               RONDO_CHECK_OK(buffer_bytes(recvcount, type, 1, kFunction));
               counts.receive_counts = only(c.size, root, recvcount);
               counts.receive_displacements = zeros(c.size);
               if (c.rank != root) return done();
               return read_parts({sendcounts, displs, "sendcounts", "displs"}, c.size, type,
                                 kFunction, &counts.send_counts, &counts.send_displacements);
             });
}

RONDO_EXPORT ncclResult_t rondoBarrier(ncclComm_t comm, cudaStream_t stream) {
  constexpr const char* kFunction = "Barrier";
  auto pin = find_usable_comm(comm, kFunction);
  if (!pin.ok()) return note_in_group(report(pin.error()));
  Request request;
  request.call.record.collective = Collective::kBarrier;
  request.stream = stream;
  return submit(std::move(*pin), std::move(request), kFunction);
}
