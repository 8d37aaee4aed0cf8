// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/device_case.h"

#include <fmt/core.h>

#include <utility>

#include "api/convert.h"

namespace rondo::test {

RankCase::RankCase(ncclComm_t comm, GpuStream stream, const Case& c, int rank,
                   const Options& options)
    : comm_(comm),
      stream_(stream),
      c_(c),
      rank_(rank),
      options_(options),
      in_(input_elements(c) * size_of(c.type), options.shift, options.shareable),
      out_(std::max(input_elements(c), output_elements(c)) * size_of(c.type), options.shift,
           options.shareable),
      op_(api::from_red_op(c.op)) {
  if (c.op != RedOp::kPreMulSum) return;
  Bytes scalar = make_scalar(c, rank);
  own_op_ = true;
  EXPECT_EQ(ncclRedOpCreatePreMulSum(&op_, scalar.data(), api::from_data_type(c.type),
                                     ncclScalarHostImmediate, comm),
            ncclSuccess)
      << ncclGetLastError(nullptr);
}

RankCase::RankCase(RankCase&& other) noexcept
    : comm_(other.comm_),
      stream_(other.stream_),
      c_(other.c_),
      rank_(other.rank_),
      options_(other.options_),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)),
      op_(other.op_),
      own_op_(std::exchange(other.own_op_, false)) {}

RankCase::~RankCase() {
  if (own_op_) ncclRedOpDestroy(op_, comm_);
}

// Offset of the rank's own block in the larger buffer of an in-place call.
std::size_t RankCase::own_block() const {
  const std::size_t block = c_.count * size_of(c_.type);
  const Collective which = c_.collective;
  if (which == Collective::kAllGather || which == Collective::kReduceScatter) return rank_ * block;
  const bool root = rank_ == c_.root;
  if ((which == Collective::kGather || which == Collective::kScatter) && root) return rank_ * block;
  return 0;
}

namespace {

bool gathers(const Case& c) {
  return c.collective == Collective::kAllGather || c.collective == Collective::kGather;
}

}  // namespace

void RankCase::fill_input() {
  const Bytes input = make_input(c_, rank_);
  in_.put(input, 0, stream_);
  out_.put(options_.in_place ? input : Bytes(), options_.in_place && gathers(c_) ? own_block() : 0,
           stream_);
}

ncclResult_t RankCase::call() {
  std::byte *send = in_.data(), *receive = out_.data();
  if (options_.in_place) {
    send = out_.data() + (gathers(c_) ? own_block() : 0);
    receive = out_.data() + (gathers(c_) ? 0 : own_block());
  }
  const auto type = api::from_data_type(c_.type);
  switch (c_.collective) {
    case Collective::kAllReduce:
      return ncclAllReduce(send, receive, c_.count, type, op_, comm_, stream_);
    case Collective::kReduce:
      return ncclReduce(send, receive, c_.count, type, op_, c_.root, comm_, stream_);
    case Collective::kReduceScatter:
      return ncclReduceScatter(send, receive, c_.count, type, op_, comm_, stream_);
    case Collective::kBroadcast:
      return ncclBroadcast(send, receive, c_.count, type, c_.root, comm_, stream_);
    case Collective::kAllGather:
      return ncclAllGather(send, receive, c_.count, type, comm_, stream_);
    case Collective::kAllToAll:
      return ncclAlltoAll(send, receive, c_.count, type, comm_, stream_);
    case Collective::kGather:
      return ncclGather(send, receive, c_.count, type, c_.root, comm_, stream_);
    case Collective::kScatter:
      return ncclScatter(send, receive, c_.count, type, c_.root, comm_, stream_);
    default:
      return ncclInvalidArgument;
  }
}

std::string RankCase::check() {
  const Bytes want = expected_output(c_, rank_);
  const std::size_t elements = want.size() / size_of(c_.type);
  const bool scatters =
      c_.collective == Collective::kReduceScatter || c_.collective == Collective::kScatter;
  out_.get(stream_);
  const std::byte* got = out_.host() + (options_.in_place && scatters ? own_block() : 0);
  const std::ptrdiff_t differs = first_difference(c_.type, got, want.data(), elements);
  if (differs == -1 && out_.guards_intact()) return "";
  return fmt::format("{} {} {} n={} rank={} root={} count={} seed={}{}{}: {}", name(c_.collective),
                     name(c_.type), name(c_.op), c_.ranks, rank_, c_.root, c_.count, c_.seed,
                     options_.in_place ? " in place" : "", options_.shareable ? " shareable" : "",
                     differs == -1 ? std::string("bytes around the output were written")
                                   : fmt::format("element {} differs", differs));
}

DeviceCase::DeviceCase(DeviceRanks& ranks, const Case& c, bool in_place, std::size_t shift)
    : ranks_(ranks) {
  for (int r = 0; r < c.ranks; ++r) {
    ranks.use_device_of(r);
    parts_.emplace_back(ranks[r].comm, ranks[r].stream, c, r,
                        RankCase::Options{in_place, shift, false});
  }
  gpu_api()->set_device(0);
}

void DeviceCase::fill_inputs() {
  for (RankCase& part : parts_) part.fill_input();
}

void DeviceCase::check() {
  ranks_.synchronize();
  for (RankCase& part : parts_) ASSERT_EQ(part.check(), "");
}

void run_grouped(DeviceRanks& ranks, const Case& c, bool in_place, std::size_t shift) {
  DeviceCase test(ranks, c, in_place, shift);
  test.fill_inputs();
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < c.ranks; ++r)
    EXPECT_EQ(test.call(r), ncclSuccess) << ncclGetLastError(nullptr);
  NCCL_OK(ncclGroupEnd());
  test.check();
}

void send_round_a_ring(DeviceRanks& ranks, std::size_t bytes, std::size_t shift) {
  const int n = ranks.size();
  std::vector<DeviceBuffer> in, out;
  for (int r = 0; r < n; ++r) {
    ranks.use_device_of(r);
    in.emplace_back(bytes, shift);
    out.emplace_back(bytes, 0);
    in[r].put(Bytes(bytes, static_cast<std::byte>(r + 1)), 0, ranks[r].stream);
    out[r].put(Bytes(), 0, ranks[r].stream);
  }
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < n; ++r) {
    const int right = (r + 1) % n, left = (r + n - 1) % n;
    NCCL_OK(ncclSend(in[r].data(), bytes, ncclUint8, right, ranks[r].comm, ranks[r].stream));
    NCCL_OK(ncclRecv(out[r].data(), bytes, ncclUint8, left, ranks[r].comm, ranks[r].stream));
  }
  NCCL_OK(ncclGroupEnd());
  for (int r = 0; r < n; ++r) {
    out[r].get(ranks[r].stream);
    const Bytes want(bytes, static_cast<std::byte>((r + n - 1) % n + 1));
    ASSERT_EQ(std::memcmp(out[r].host(), want.data(), bytes), 0) << "rank " << r;
    ASSERT_TRUE(out[r].guards_intact());
  }
}

}  // namespace rondo::test
