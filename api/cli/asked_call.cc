#include "api/cli/asked_call.h"

#include <optional>

#include "api/convert.h"
#include "bench/element_types.h"

namespace rondo::cli {
namespace {

std::optional<Collective> engine_collective(bench::Kind kind) {
  switch (kind) {
    case bench::Kind::kAllReduce:
      return Collective::kAllReduce;
    case bench::Kind::kAllGather:
      return Collective::kAllGather;
    case bench::Kind::kReduceScatter:
      return Collective::kReduceScatter;
    case bench::Kind::kBroadcast:
      return Collective::kBroadcast;
    case bench::Kind::kReduce:
      return Collective::kReduce;
    case bench::Kind::kAllToAll:
      return Collective::kAllToAll;
    case bench::Kind::kGather:
      return Collective::kGather;
    case bench::Kind::kScatter:
      return Collective::kScatter;
    case bench::Kind::kSendRecv:
      return Collective::kSend;
    case bench::Kind::kBarrier:
      return Collective::kBarrier;
    case bench::Kind::kAllToAllV:
      return Collective::kAllToAllV;
    case bench::Kind::kAllGatherV:
      return Collective::kAllGatherV;
    case bench::Kind::kReduceScatterV:
      return Collective::kReduceScatterV;
    case bench::Kind::kGatherV:
      return Collective::kGatherV;
    case bench::Kind::kScatterV:
      return Collective::kScatterV;
    default:
      return std::nullopt;
  }
}

RedOp engine_op(bench::Op op) {
  if (op == bench::Op::kMulSum) return RedOp::kPreMulSum;
  return api::to_red_op(bench::handle(op), "explain").value();
}

DataType engine_type(ncclDataType_t type) { return api::to_data_type(type, "explain").value(); }

}  // namespace

Result<CallRecord> record_of(const AskedCall& wanted) {
  const auto kind = bench::kind_by_name(wanted.collective);
  const auto which = kind ? engine_collective(*kind) : std::nullopt;
  if (!which)
    return fail(StatusCode::kInvalidArgument,
                "'{}' is not a collective with a plan; choose all_reduce, all_gather, "
                "reduce_scatter, broadcast, reduce, alltoall, gather, scatter, sendrecv, barrier, "
                "and alltoallv, all_gather_v, reduce_scatter_v, gather_v, scatter_v",
                wanted.collective);
  const auto type = bench::type_by_name(wanted.type);
  if (!type)
    return fail(StatusCode::kInvalidArgument, "--type '{}' is not an element type", wanted.type);
  const auto op = bench::op_by_name(wanted.op);
  if (!op || *op == bench::Op::kNone || !bench::supported(*op, *type))
    return fail(StatusCode::kInvalidArgument, "--op '{}' is not a reduction of {}", wanted.op,
                wanted.type);
  const auto bytes = bench::parse_size(wanted.size);
  if (!bytes)
    return fail(StatusCode::kInvalidArgument, "'{}' is not a size such as 4096, 64K or 1.5M",
                wanted.size);
  if (wanted.root < 0 || wanted.root >= wanted.ranks)
    return fail(StatusCode::kInvalidArgument, "--root {} is not a rank: the number of ranks is {}",
                wanted.root, wanted.ranks);
  CallRecord record;
  record.collective = *which;
  record.type = engine_type(*type);
  if (bench::info(*kind).reduces) record.op = engine_op(*op);
  if (bench::info(*kind).rooted) record.root = wanted.root;
  if (*which == Collective::kBarrier) return record;
  record.count = bench::layout_of({*kind, *type, 0, wanted.ranks, wanted.root}, *bytes).count;
  if (record.count == 0)
    return fail(StatusCode::kInvalidArgument, "{} is less than one element for each of {} ranks",
                wanted.size, wanted.ranks);
  return record;
}

Result<bench::Layout> layout_of(const AskedCall& asked) {
  if (const auto record = record_of(asked); !record.ok()) return record.error();
  const bench::Kind kind = *bench::kind_by_name(asked.collective);
  const ncclDataType_t type = *bench::type_by_name(asked.type);
  return bench::layout_of({kind, type, 0, asked.ranks, asked.root}, *bench::parse_size(asked.size));
}

}  // namespace rondo::cli
