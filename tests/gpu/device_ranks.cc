#include "tests/gpu/device_ranks.h"

#include "api/rondo.h"

namespace rondo::test {

bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

namespace {

ncclDataType_t nccl_type(DataType type) {
  if (type == DataType::kInt16) return rondoInt16;
  if (type == DataType::kUint16) return rondoUint16;
  return static_cast<ncclDataType_t>(type);
}

}  // namespace

DeviceCase::DeviceCase(DeviceRanks& ranks, const Case& c, bool in_place, std::size_t shift)
    : ranks_(ranks), c_(c), in_place_(in_place) {
  const std::size_t width = size_of(c.type);
  const std::size_t in = input_elements(c) * width, out = output_elements(c) * width;
  for (int r = 0; r < c.ranks; ++r) {
    in_.emplace_back(in, shift);
    out_.emplace_back(std::max(in, out), shift);
    ops_.push_back(static_cast<ncclRedOp_t>(c.op));
    if (c.op == RedOp::kBitAnd) ops_[r] = rondoBand;
    if (c.op == RedOp::kBitOr) ops_[r] = rondoBor;
    if (c.op == RedOp::kBitXor) ops_[r] = rondoBxor;
    if (c.op != RedOp::kPreMulSum) continue;
    Bytes scalar = make_scalar(c, r);
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&ops_[r], scalar.data(), nccl_type(c.type),
                                       ncclScalarHostImmediate, ranks.comms[r]),
              ncclSuccess)
        << ncclGetLastError(nullptr);
  }
}

DeviceCase::~DeviceCase() {
  for (int r = 0; r < c_.ranks && c_.op == RedOp::kPreMulSum; ++r)
    ncclRedOpDestroy(ops_[r], ranks_.comms[r]);
}

// Where a rank's own block begins in the larger buffer of an in-place call.
std::size_t DeviceCase::own_block(int rank) const {
  const std::size_t block = c_.count * size_of(c_.type);
  const Collective which = c_.collective;
  if (which == Collective::kAllGather || which == Collective::kReduceScatter) return rank * block;
  const bool root = rank == c_.root;
  if ((which == Collective::kGather || which == Collective::kScatter) && root) return rank * block;
  return 0;
}

void DeviceCase::fill_inputs() {
  const bool gathers =
      c_.collective == Collective::kAllGather || c_.collective == Collective::kGather;
  for (int r = 0; r < c_.ranks; ++r) {
    const Bytes input = make_input(c_, r);
    in_[r].put(input, 0, ranks_.streams[r]);
    out_[r].put(in_place_ ? input : Bytes(), in_place_ && gathers ? own_block(r) : 0,
                ranks_.streams[r]);
  }
}

ncclResult_t DeviceCase::call(int r) {
  const bool gathers =
      c_.collective == Collective::kAllGather || c_.collective == Collective::kGather;
  std::byte *send = in_[r].data(), *receive = out_[r].data();
  if (in_place_) {
    send = out_[r].data() + (gathers ? own_block(r) : 0);
    receive = out_[r].data() + (gathers ? 0 : own_block(r));
  }
  const auto type = nccl_type(c_.type);
  const ncclComm_t comm = ranks_.comms[r];
  const GpuStream stream = ranks_.streams[r];
  switch (c_.collective) {
    case Collective::kAllReduce:
      return ncclAllReduce(send, receive, c_.count, type, ops_[r], comm, stream);
    case Collective::kReduce:
      return ncclReduce(send, receive, c_.count, type, ops_[r], c_.root, comm, stream);
    case Collective::kReduceScatter:
      return ncclReduceScatter(send, receive, c_.count, type, ops_[r], comm, stream);
    case Collective::kBroadcast:
      return ncclBroadcast(send, receive, c_.count, type, c_.root, comm, stream);
    case Collective::kAllGather:
      return ncclAllGather(send, receive, c_.count, type, comm, stream);
    case Collective::kAllToAll:
      return ncclAlltoAll(send, receive, c_.count, type, comm, stream);
    case Collective::kGather:
      return ncclGather(send, receive, c_.count, type, c_.root, comm, stream);
    case Collective::kScatter:
      return ncclScatter(send, receive, c_.count, type, c_.root, comm, stream);
    default:
      return ncclInvalidArgument;
  }
}

void DeviceCase::check() {
  ranks_.synchronize();
  for (int r = 0; r < c_.ranks; ++r) {
    const Bytes want = expected_output(c_, r);
    const std::size_t elements = want.size() / size_of(c_.type);
    const bool scatters =
        c_.collective == Collective::kReduceScatter || c_.collective == Collective::kScatter;
    out_[r].get(ranks_.streams[r]);
    const std::byte* got = out_[r].host() + (in_place_ && scatters ? own_block(r) : 0);
    ASSERT_EQ(first_difference(c_.type, got, want.data(), elements), -1)
        << name(c_.collective) << " " << name(c_.type) << " " << name(c_.op) << " n=" << c_.ranks
        << " rank=" << r << " root=" << c_.root << " count=" << c_.count << " seed=" << c_.seed
        << (in_place_ ? " in place" : "");
    ASSERT_TRUE(out_[r].guards_intact()) << name(c_.collective) << " rank " << r;
  }
}

}  // namespace rondo::test
