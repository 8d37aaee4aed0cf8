// SPDX-License-Identifier: Apache-2.0
// The collectives of rondo.h: those with a count per rank, and the barrier.
//
// A collective that only moves data is one message per pair of ranks, also if it is empty; all
// messages are in progress at once. Each pair checks its two counts, so no rank needs the counts of
// others. A reduction is one Reduce per part. On the host, ranks compare all of this as one call;
// counts that all ranks know must be equal too.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "api/arguments.h"
#include "api/call_builder.h"
#include "api/convert.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/group.h"
#include "api/part_overlap.h"

using namespace rondo;
using namespace rondo::api;

namespace {

using Sizes = std::vector<std::size_t>;

// The caller's arrays for sending or receiving, and their names for errors.
struct Parts {
  const std::size_t* counts;
  const std::size_t* displacements;
  const char* counts_name;
  const char* displacements_name;
};

// Copies the caller's arrays. An error if a part ends beyond kMaxBufferBytes.
Status read_parts(const Parts& parts, int ranks, DataType type, const char* function, Sizes* counts,
                  Sizes* displacements) {
  RONDO_CHECK_OK(not_null(parts.counts, function, parts.counts_name));
  RONDO_CHECK_OK(not_null(parts.displacements, function, parts.displacements_name));
  for (int r = 0; r < ranks; ++r) {
    std::size_t end = 0;
    if (__builtin_add_overflow(parts.counts[r], parts.displacements[r], &end))
      return fail(StatusCode::kInvalidArgument,
                  "{} : {}[{}] = {} + {}[{}] = {} is larger than any buffer: give elements",
                  function, parts.counts_name, r, parts.counts[r], parts.displacements_name, r,
                  parts.displacements[r]);
    RONDO_CHECK_OK(buffer_bytes(end, type, 1, function));
  }
  counts->assign(parts.counts, parts.counts + ranks);
  displacements->assign(parts.displacements, parts.displacements + ranks);
  return ok_status();
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

// Counts per peer; empty if this rank does not send or does not receive.
struct Counts {
  Sizes send_counts, send_displacements;
  Sizes receive_counts, receive_displacements;
};

bool any(const Sizes& counts) {
  return std::any_of(counts.begin(), counts.end(), [](std::size_t count) { return count > 0; });
}

std::byte* part(const void* buffer, std::size_t displacement, DataType type) {
  if (buffer == nullptr) return nullptr;  // all counts are 0
  return static_cast<std::byte*>(const_cast<void*>(buffer)) + displacement * size_of(type);
}

// Pairs with the root if there is one, else all pairs.
bool pair_talks(const VectorCall& what, int from, int to) {
  if (what.which == Collective::kGatherV) return to == what.root;
  if (what.which == Collective::kScatterV) return from == what.root;
  return true;
}

// Adds counts that must be equal on all ranks to the record that ranks compare: `count` is their
// sum, `root` a digest. The digest is below -1, which is never a root.
void agree_on(const Sizes& counts, CallRecord* record) {
  std::uint64_t digest = 0xcbf29ce484222325;
  for (const std::size_t count : counts) {
    record->count += count;
    digest = (digest ^ count) * 0x100000001b3;
    digest ^= digest >> 29;
  }
  constexpr std::uint64_t kMax = (std::uint64_t{1} << 27) - 2;  // CallRecord::root has 28 bits
  record->root = -2 - static_cast<std::int32_t>(digest % kMax);
}

// Compares the two counts of this rank's message to itself, which no other rank checks.
Status check_own_part(const VectorCall& what, const Comm& comm, const Counts& counts) {
  if (!pair_talks(what, comm.rank, comm.rank)) return ok_status();
  const auto me = static_cast<std::size_t>(comm.rank);
  if (counts.send_counts[me] == counts.receive_counts[me]) return ok_status();
  return fail(StatusCode::kInvalidArgument,
              "{} : rank {} sends itself {} elements and receives {} from itself", what.function,
              comm.rank, counts.send_counts[me], counts.receive_counts[me]);
}

// Checks the memory that this rank reads and writes. Its own part does not move if it is at the
// same place in both buffers.
Status check_apart(const VectorCall& what, const Comm& comm, DataType type, const Counts& counts) {
  const bool reduces = what.which == Collective::kReduceScatterV;
  const auto size = static_cast<std::size_t>(comm.size);
  const auto me = static_cast<std::size_t>(comm.rank);
  const auto sent = [&](std::size_t p) {
    return part(what.send, counts.send_displacements[p], type);
  };
  const auto received = [&](std::size_t p) {
    return part(what.receive, counts.receive_displacements[p], type);
  };
  PartRanges ranges(2 * size);
  for (std::size_t p = 0; p < size; ++p) {
    const int peer = static_cast<int>(p);
    if (reduces || pair_talks(what, comm.rank, peer))
      ranges.add_sent(peer, sent(p), counts.send_counts[p] * size_of(type));
    const bool is_own = p == me;
    const bool writes = reduces ? is_own : pair_talks(what, peer, comm.rank);
    if (!writes || (is_own && sent(p) == received(p))) continue;
    ranges.add_received(peer, received(p), counts.receive_counts[p] * size_of(type));
  }
  return check_parts_apart(std::move(ranges), what.function);
}

std::vector<Call> messages(const VectorCall& what, const Comm& comm, DataType type,
                           const Counts& counts) {
  std::vector<Call> calls;
  for (int peer = 0; peer < comm.size; ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    Call call;
    call.record.type = type;
    call.peer = peer;
    if (pair_talks(what, comm.rank, peer)) {
      call.record.collective = Collective::kSend;
      call.record.count = counts.send_counts[p];
      call.send = part(what.send, counts.send_displacements[p], type);
      calls.push_back(call);
    }
    if (pair_talks(what, peer, comm.rank)) {
      call.record.collective = Collective::kRecv;
      call.record.count = counts.receive_counts[p];
      call.send = nullptr;
      call.receive = part(what.receive, counts.receive_displacements[p], type);
      calls.push_back(call);
    }
  }
  return calls;
}

std::vector<Call> reductions(const VectorCall& what, const Comm& comm, const Call& pattern,
                             const Counts& counts) {
  std::vector<Call> calls;
  for (int root = 0; root < comm.size; ++root) {
    const auto r = static_cast<std::size_t>(root);
    Call call = pattern;  // type, operation, factor
    call.record.collective = Collective::kReduce;
    call.record.root = root;
    call.record.count = counts.send_counts[r];
    call.send = part(what.send, counts.send_displacements[r], pattern.record.type);
    call.receive = root == comm.rank ? what.receive : nullptr;
    calls.push_back(call);
  }
  return calls;
}

template <class Fill>
Result<Request> build(const VectorCall& what, const Comm& comm, Fill fill) {
  Request request;
  const bool rooted = what.which == Collective::kGatherV || what.which == Collective::kScatterV;
  if (rooted) RONDO_CHECK_OK(root_in_range(what.root, comm.size, what.function));
  RONDO_TRY(const DataType type, to_data_type(what.type, what.function));
  request.call.record.type = type;
  const bool reduces = what.which == Collective::kReduceScatterV;
  if (reduces) RONDO_CHECK_OK(set_reduction(comm, what.op, what.function, &request));
  Counts counts;
  RONDO_CHECK_OK(fill(comm, type, counts));
  if (any(counts.send_counts)) RONDO_CHECK_OK(not_null(what.send, what.function, "sendbuff"));
  if (any(counts.receive_counts)) RONDO_CHECK_OK(not_null(what.receive, what.function, "recvbuff"));
  if (!reduces) RONDO_CHECK_OK(check_own_part(what, comm, counts));
  RONDO_CHECK_OK(check_apart(what, comm, type, counts));
  std::vector<Call> calls =
      reduces ? reductions(what, comm, request.call, counts) : messages(what, comm, type, counts);
  if (comm.engine()->options().device < 0) {
    CallRecord& whole = request.call.record;  // has type and operation
    whole.collective = what.which;
    whole.root = what.root;
    if (reduces) agree_on(counts.send_counts, &whole);
    if (what.which == Collective::kAllGatherV) agree_on(counts.receive_counts, &whole);
    request.call.parts = std::make_shared<const std::vector<Call>>(std::move(calls));
    return request;
  }
  request.call = std::move(calls.front());  // at least one: a rank has a message or Reduce
  request.more.assign(std::make_move_iterator(calls.begin() + 1),
                      std::make_move_iterator(calls.end()));
  return request;
}

// fill(comm, type, counts) reads the caller's counts.
template <class Fill>
ncclResult_t run(const VectorCall& what, ncclComm_t comm, cudaStream_t stream, Fill fill) {
  auto pin = find_usable_comm(comm, what.function);
  if (!pin.ok()) return note_in_group(report(pin.error()));
  auto request = build(what, **pin, fill);
  if (!request.ok()) return note_in_group(report(request.error()));
  request->call.stream = stream;
  return submit(std::move(*pin), std::move(*request), what.function);
}

}  // namespace

RONDO_FUNCTION(ncclResult_t, rondoAllToAllv, const void* sendbuff, const size_t* sendcounts,
               const size_t* sdispls, void* recvbuff, const size_t* recvcounts,
               const size_t* rdispls, ncclDataType_t datatype, ncclComm_t comm,
               cudaStream_t stream) {
  constexpr const char* kFunction = "AllToAllv";
  return run(
      {Collective::kAllToAllV, kFunction, sendbuff, recvbuff, datatype}, comm, stream,
      [&](const Comm& c, DataType type, Counts& counts) -> Status {
        RONDO_CHECK_OK(read_parts({sendcounts, sdispls, "sendcounts", "sdispls"}, c.size, type,
                                  kFunction, &counts.send_counts, &counts.send_displacements));
        return read_parts({recvcounts, rdispls, "recvcounts", "rdispls"}, c.size, type, kFunction,
                          &counts.receive_counts, &counts.receive_displacements);
      });
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoAllGatherv, const void* sendbuff, size_t sendcount,
               void* recvbuff, const size_t* recvcounts, const size_t* displs,
               ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  constexpr const char* kFunction = "AllGatherv";
  return run({Collective::kAllGatherV, kFunction, sendbuff, recvbuff, datatype}, comm, stream,
             [&](const Comm& c, DataType type, Counts& counts) -> Status {
               RONDO_CHECK_OK(read_parts({recvcounts, displs, "recvcounts", "displs"}, c.size, type,
                                         kFunction, &counts.receive_counts,
                                         &counts.receive_displacements));
               if (recvcounts[c.rank] != sendcount)
                 return fail(StatusCode::kInvalidArgument,
                             "{} : sendcount {} is not recvcounts[{}] = {}", kFunction, sendcount,
                             c.rank, recvcounts[c.rank]);
               counts.send_counts.assign(static_cast<std::size_t>(c.size), sendcount);
               counts.send_displacements = zeros(c.size);
               return ok_status();
             });
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoReduceScatterv, const void* sendbuff, void* recvbuff,
               const size_t* recvcounts, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
               cudaStream_t stream) {
  constexpr const char* kFunction = "ReduceScatterv";
  return run(
      {Collective::kReduceScatterV, kFunction, sendbuff, recvbuff, datatype, op}, comm, stream,
      [&](const Comm& c, DataType type, Counts& counts) -> Status {
        RONDO_CHECK_OK(not_null(recvcounts, kFunction, "recvcounts"));
        Sizes starts = zeros(c.size);
        for (int r = 1; r < c.size; ++r)
          if (__builtin_add_overflow(starts[r - 1], recvcounts[r - 1], &starts[r]))
            return fail(StatusCode::kInvalidArgument,
                        "{} : the sum of recvcounts is larger than any buffer", kFunction);
        RONDO_CHECK_OK(read_parts({recvcounts, starts.data(), "recvcounts", "displs"}, c.size, type,
                                  kFunction, &counts.send_counts, &counts.send_displacements));
        counts.receive_counts.assign(static_cast<std::size_t>(c.size), recvcounts[c.rank]);
        counts.receive_displacements = zeros(c.size);
        return ok_status();
      });
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoGatherv, const void* sendbuff, size_t sendcount, void* recvbuff,
               const size_t* recvcounts, const size_t* displs, ncclDataType_t datatype, int root,
               ncclComm_t comm, cudaStream_t stream) {
  constexpr const char* kFunction = "Gatherv";
  return run({Collective::kGatherV, kFunction, sendbuff, recvbuff, datatype, ncclSum, root}, comm,
             stream, [&](const Comm& c, DataType type, Counts& counts) -> Status {
               RONDO_CHECK_OK(buffer_bytes(sendcount, type, 1, kFunction));
               counts.send_counts = only(c.size, root, sendcount);
               counts.send_displacements = zeros(c.size);
               if (c.rank != root) return ok_status();
               return read_parts({recvcounts, displs, "recvcounts", "displs"}, c.size, type,
                                 kFunction, &counts.receive_counts, &counts.receive_displacements);
             });
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoScatterv, const void* sendbuff, const size_t* sendcounts,
               const size_t* displs, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
               int root, ncclComm_t comm, cudaStream_t stream) {
  constexpr const char* kFunction = "Scatterv";
  return run({Collective::kScatterV, kFunction, sendbuff, recvbuff, datatype, ncclSum, root}, comm,
             stream, [&](const Comm& c, DataType type, Counts& counts) -> Status {
               RONDO_CHECK_OK(buffer_bytes(recvcount, type, 1, kFunction));
               counts.receive_counts = only(c.size, root, recvcount);
               counts.receive_displacements = zeros(c.size);
               if (c.rank != root) return ok_status();
               return read_parts({sendcounts, displs, "sendcounts", "displs"}, c.size, type,
                                 kFunction, &counts.send_counts, &counts.send_displacements);
             });
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoBarrier, ncclComm_t comm, cudaStream_t stream) {
  constexpr const char* kFunction = "Barrier";
  if (ncclResult_t result; stream == nullptr && run_usual_barrier(comm, &result)) return result;
  auto pin = find_usable_comm(comm, kFunction);
  if (!pin.ok()) return note_in_group(report(pin.error()));
  Request request;
  request.call.record.collective = Collective::kBarrier;
  request.call.stream = stream;
  return submit(std::move(*pin), std::move(request), kFunction);
}
RONDO_CATCH
