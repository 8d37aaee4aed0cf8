#include "tests/gpu/process_bodies.h"

#include "kernels/reduce.h"

namespace rondo::test {

void run_case(GpuSeat& seat, const Case& c, const RankCase::Options& options) {
  RankCase part(seat.comm, seat.stream, c, seat.rank, options);
  part.fill_input();
  NCCL_OK(part.call());
  ASSERT_EQ(part.check(), "") << name(c.collective) << " of " << c.count;
}

void run_every_collective(GpuSeat& seat, std::initializer_list<std::size_t> counts,
                          std::initializer_list<DataType> types,
                          bool (*mapped)(int rank, int number)) {
  unsigned seed = 1000;
  for (const Collective collective : kEveryCollective)
    for (const std::size_t count : counts) {
      ++seed;
      const DataType type = types.begin()[seed % types.size()];
      const Case c{collective, type, RedOp::kSum, seat.size, static_cast<int>(seed % seat.size),
                   count,      seed};
      const bool in_place = collective != Collective::kAllToAll && seed % 2 == 0;
      run_case(seat, c,
               {in_place, seed % 5 * size_of(type), mapped(seat.rank, static_cast<int>(seed))});
      if (testing::Test::HasFatalFailure()) return;
    }
}

void pass_round_a_ring(GpuSeat& seat, std::initializer_list<std::size_t> sizes) {
  const int n = seat.size, right = (seat.rank + 1) % n, left = (seat.rank + n - 1) % n;
  for (const std::size_t bytes : sizes) {
    DeviceBuffer in(bytes, 3), out(bytes, 1);
    in.put(Bytes(bytes, static_cast<std::byte>(seat.rank + 1)), 0, seat.stream);
    out.put({}, 0, seat.stream);
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclSend(in.data(), bytes, ncclUint8, right, seat.comm, seat.stream));
    NCCL_OK(ncclRecv(out.data(), bytes, ncclUint8, left, seat.comm, seat.stream));
    NCCL_OK(ncclGroupEnd());
    out.get(seat.stream);
    const Bytes want(bytes, static_cast<std::byte>(left + 1));
    ASSERT_EQ(std::memcmp(out.host(), want.data(), bytes), 0) << bytes;
    ASSERT_TRUE(out.guards_intact());
  }
}

void call_on_several_streams(GpuSeat& seat) {
  constexpr int kSums = 6, kCalls = 300;
  constexpr std::size_t kCount = 500;
  GpuStream streams[3] = {};
  for (GpuStream& stream : streams) GPU_OK(gpu_api()->create_stream(&stream, 0));
  DeviceBuffer buffer(kCount * sizeof(std::int64_t), 0);
  Bytes ones(kCount * sizeof(std::int64_t));
  for (std::size_t i = 0; i < kCount; ++i) ones[i * sizeof(std::int64_t)] = std::byte{1};
  buffer.put(ones, 0, seat.stream);
  std::int64_t wanted = 1;
  for (int i = 0; i < kCalls; ++i) {
    if (i < kSums) wanted *= seat.size;
    NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclInt64,
                          i < kSums ? ncclSum : ncclMax, seat.comm, streams[i % 3]));
  }
  for (GpuStream stream : streams) GPU_OK(gpu_api()->synchronize_stream(stream));
  buffer.get(seat.stream);
  std::int64_t last = 0;
  std::memcpy(&last, buffer.host() + (kCount - 1) * sizeof(last), sizeof(last));
  EXPECT_EQ(last, wanted);
  for (GpuStream stream : streams) GPU_OK(gpu_api()->destroy_stream(stream));
}

void scale_by_factors_on_the_device(GpuSeat& seat) {
  DeviceBuffer factor(sizeof(float), 0), data(sizeof(float), 0);
  const auto factor_of = [](int rank) { return static_cast<float>(rank + 2); };
  const float mine = factor_of(seat.rank), one = 1;
  Bytes bytes(sizeof(float));
  std::memcpy(bytes.data(), &mine, sizeof(mine));
  factor.put(bytes, 0, seat.stream);
  std::memcpy(bytes.data(), &one, sizeof(one));
  data.put(bytes, 0, seat.stream);
  ncclRedOp_t op;
  NCCL_OK(ncclRedOpCreatePreMulSum(&op, factor.data(), ncclFloat32, ncclScalarDevice, seat.comm));
  NCCL_OK(ncclAllReduce(data.data(), data.data(), 1, ncclFloat32, op, seat.comm, seat.stream));
  NCCL_OK(ncclRedOpDestroy(op, seat.comm));
  data.get(seat.stream);
  float sum = 0, wanted = 0;
  std::memcpy(&sum, data.host(), sizeof(sum));
  for (int r = 0; r < seat.size; ++r) wanted += factor_of(r);
  EXPECT_EQ(sum, wanted);
}

void reduce_every_type_and_operation(GpuSeat& seat, const std::vector<Collective>& in_turn,
                                     unsigned seed) {
  for (int op = 0; op < kRedOps; ++op)
    for (int t = 0; t < kDataTypes; ++t) {
      // Integers wrap in any order; of the floats only what rounds nothing.
      const auto o = static_cast<RedOp>(op);
      const auto type = static_cast<DataType>(t);
      if (!supported(type, o) || (is_float(type) && size_of(type) < 4)) continue;
      const std::size_t count = o == RedOp::kPreMulSum ? 50 : 517;
      ++seed;
      const int root = static_cast<int>(seed % static_cast<unsigned>(seat.size));
      run_case(seat, {in_turn[seed % in_turn.size()], type, o, seat.size, root, count, seed},
               {seed % 2 == 0, 0, false});
      if (testing::Test::HasFatalFailure()) return;
    }
}

ncclResult_t sum_once(GpuSeat& seat, DeviceBuffer& buffer, std::size_t count) {
  ncclResult_t result = ncclAllReduce(buffer.data(), buffer.data(), count, ncclFloat32, ncclSum,
                                      seat.comm, seat.stream);
  if (result != ncclSuccess) return result;
  EXPECT_EQ(gpu_api()->synchronize_stream(seat.stream), kGpuSuccess);
  EXPECT_EQ(ncclCommGetAsyncError(seat.comm, &result), ncclSuccess);
  return result;
}

void report_and_abort(GpuSeat& seat, ncclResult_t result) {
  seat.seat.report(Error{static_cast<Status>(result), ncclGetLastError(seat.comm)});
  NCCL_OK(ncclCommAbort(seat.comm));
  seat.comm = nullptr;
}

void sum_until_error(GpuSeat& seat, std::size_t count) {
  DeviceBuffer buffer(count * sizeof(float), 0);
  buffer.put(Bytes(count * sizeof(float)), 0, seat.stream);
  seat.seat.mark(1);
  ncclResult_t result = ncclSuccess;
  while ((result = sum_once(seat, buffer, count)) == ncclSuccess) {
  }
  report_and_abort(seat, result);
}

void expect_reports(RankProcesses& processes, int ranks, Status status, const std::string& part,
                    int victim) {
  for (int r = 0; r < ranks; ++r) {
    if (r == victim) continue;
    EXPECT_EQ(processes.status(r), status) << processes.text(r);
    EXPECT_NE(processes.text(r).find(part), std::string::npos) << processes.text(r);
  }
}

}  // namespace rondo::test
