// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/process_bodies.h"

#include <chrono>
#include <thread>

#include "api/rondo.h"
#include "kernels/reduce.h"
#include "transport/cuda/streams.h"

namespace rondo::test {

void run_case(NcclRank& seat, const Case& c, const RankCase::Options& options) {
  RankCase part(seat.comm, seat.stream, c, seat.rank, options);
  part.fill_input();
  NCCL_OK(part.call());
  ASSERT_EQ(part.check(), "") << name(c.collective) << " of " << c.count;
}

void run_every_collective(NcclRank& seat, std::initializer_list<std::size_t> counts,
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

void pass_round_a_ring(NcclRank& seat, std::initializer_list<std::size_t> sizes) {
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
    if (bytes > 0) {
      ASSERT_EQ(std::memcmp(out.host(), want.data(), bytes), 0) << bytes;
    }
    ASSERT_TRUE(out.guards_intact());
  }
}

void call_on_several_streams(NcclRank& seat) {
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

void pass_on_what_comes_late(NcclRank& seat) {
  constexpr std::size_t kBytes = 5000;
  using std::chrono::milliseconds;
  GpuStream other = nullptr;
  GPU_OK(gpu_api()->create_stream(&other, 0));
  DeviceBuffer buffer(kBytes, 0);
  buffer.put(Bytes(kBytes, std::byte(seat.rank == 2 ? 7 : 0)), 0, seat.stream);
  const auto nap = [](void*) { std::this_thread::sleep_for(milliseconds(300)); };
  if (seat.rank == 2) {
    GPU_OK(gpu_api()->launch_host(seat.stream, nap, nullptr));
    NCCL_OK(ncclSend(buffer.data(), kBytes, ncclUint8, 1, seat.comm, seat.stream));
  } else if (seat.rank == 1) {
    NCCL_OK(ncclRecv(buffer.data(), kBytes, ncclUint8, 2, seat.comm, seat.stream));
    NCCL_OK(ncclSend(buffer.data(), kBytes, ncclUint8, 0, seat.comm, other));
  } else {
    std::this_thread::sleep_for(milliseconds(100));  // so that rank 1 posts first
    NCCL_OK(ncclRecv(buffer.data(), kBytes, ncclUint8, 1, seat.comm, other));
  }
  GPU_OK(gpu_api()->synchronize_stream(other));
  buffer.get(seat.stream);
  EXPECT_EQ(buffer.host()[0], std::byte{7});
  EXPECT_EQ(buffer.host()[kBytes - 1], std::byte{7});
  GPU_OK(gpu_api()->destroy_stream(other));
}

void sum_on_per_thread_streams(NcclRank& seat) {
  constexpr std::size_t kCount = 3001, kBytes = kCount * sizeof(std::int64_t);
  const GpuStream stream = gpu::kPerThreadStream;
  std::int64_t ranks = 0;
  for (int r = 0; r < seat.size; ++r) ranks += r;
  for (std::int64_t round = 1; round < 4; ++round) {
    const std::vector<std::int64_t> values(kCount, 10 * round + seat.rank);
    Bytes content(kBytes);
    std::memcpy(content.data(), values.data(), kBytes);
    DeviceBuffer input(kBytes, 0), late(kBytes, 0), output(kBytes, 0);
    input.put(Bytes(kBytes), 0, seat.stream);
    late.put(content, 0, seat.stream);
    const auto nap = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };
    GPU_OK(gpu_api()->launch_host(stream, nap, nullptr));
    GPU_OK(gpu_api()->copy(input.data(), late.data(), kBytes, GpuCopy::kDeviceToDevice, stream));
    NCCL_OK(
        ncclAllReduce(input.data(), output.data(), kCount, ncclInt64, ncclSum, seat.comm, stream));
    output.get(stream);
    std::int64_t last = 0;
    std::memcpy(&last, output.host() + kBytes - sizeof(last), sizeof(last));
    EXPECT_EQ(last, 10 * round * seat.size + ranks) << "round " << round;
  }
}

void scale_by_factors_on_the_device(NcclRank& seat) {
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

namespace {

void put_numbers(DeviceBuffer& buffer, const std::vector<std::int64_t>& numbers, GpuStream stream) {
  Bytes bytes(numbers.size() * sizeof(std::int64_t));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  buffer.put(bytes, 0, stream);
}

std::int64_t number_at(const DeviceBuffer& buffer, std::size_t i) {
  std::int64_t got = 0;
  std::memcpy(&got, buffer.host() + i * sizeof(got), sizeof(got));
  return got;
}

// A capture on the rank's stream and another one, forked at its beginning and joined at its end.
class TwoStreams {
 public:
  explicit TwoStreams(NcclRank& seat) : first(seat.stream) {
    EXPECT_EQ(gpu_api()->create_stream(&second, 0), kGpuSuccess);
    EXPECT_EQ(gpu_api()->create_event(&fork_, kEventPlain), kGpuSuccess);
    EXPECT_EQ(gpu_api()->create_event(&join_, kEventPlain), kGpuSuccess);
  }
  ~TwoStreams() {
    if (graph != nullptr) gpu_api()->destroy_graph(graph);
    gpu_api()->destroy_event(fork_);
    gpu_api()->destroy_event(join_);
    gpu_api()->destroy_stream(second);
  }
  TwoStreams(const TwoStreams&) = delete;
  TwoStreams& operator=(const TwoStreams&) = delete;
  void begin() {
    GPU_OK(gpu_api()->begin_capture(first, GpuCaptureMode::kThreadLocal));
    GPU_OK(gpu_api()->record_event(fork_, first, GpuEventUse::kPlain));
    GPU_OK(gpu_api()->stream_wait_event(second, fork_, GpuEventUse::kPlain));
  }
  // Delays the next work on the first stream until after the next work on the second.
  void hold_up_first() const {
    GPU_OK(gpu_api()->launch_host(
        first, [](void*) { nap(0.03); }, nullptr));
  }
  void end() {
    GPU_OK(gpu_api()->record_event(join_, second, GpuEventUse::kPlain));
    GPU_OK(gpu_api()->stream_wait_event(first, join_, GpuEventUse::kPlain));
    GPU_OK(gpu_api()->end_capture(first, &graph));
  }
  const GpuStream first;
  GpuStream second = nullptr;
  void* graph = nullptr;

 private:
  GpuEvent fork_ = nullptr, join_ = nullptr;
};

}  // namespace

void replay_a_capture_of_two_streams(NcclRank& seat) {
  constexpr std::size_t kCount = 1000;
  DeviceBuffer x(kCount * sizeof(std::int64_t), 0), y(kCount * sizeof(std::int64_t), 0);
  std::vector<std::int64_t> numbers(kCount);
  for (std::size_t i = 0; i < kCount; ++i) numbers[i] = static_cast<std::int64_t>(i) + 1;
  put_numbers(x, numbers, seat.stream);
  TwoStreams on(seat);
  on.begin();
  on.hold_up_first();
  NCCL_OK(ncclAllReduce(x.data(), x.data(), kCount, ncclInt64, ncclSum, seat.comm, on.first));
  NCCL_OK(ncclAllReduce(x.data(), y.data(), kCount, ncclInt64, ncclMax, seat.comm, on.second));
  on.end();
  for (std::int64_t round = 1, factor = seat.size; round <= 2; ++round, factor *= seat.size) {
    GPU_OK(gpu_api()->launch_graph(on.graph, seat.stream));
    y.get(seat.stream);
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_EQ(number_at(y, i), numbers[i] * factor) << "element " << i << " round " << round;
  }
}

// Only one rank's first stream is delayed: messages out of order would not match the other's.
void replay_messages_of_two_streams(NcclRank& seat) {
  constexpr std::size_t kBytes = 50'000;  // several pieces
  const int peer = 1 - seat.rank;
  std::vector<DeviceBuffer> in, out;
  for (int i = 0; i < 2; ++i) {
    in.emplace_back(kBytes, 0);
    out.emplace_back(kBytes, 0);
    in[i].put(Bytes(kBytes, static_cast<std::byte>(10 * i + seat.rank + 1)), 0, seat.stream);
  }
  TwoStreams on(seat);
  on.begin();
  if (seat.rank == 0) on.hold_up_first();
  for (int i = 0; i < 2; ++i) {
    const GpuStream stream = i == 0 ? on.first : on.second;
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclSend(in[i].data(), kBytes, ncclUint8, peer, seat.comm, stream));
    NCCL_OK(ncclRecv(out[i].data(), kBytes, ncclUint8, peer, seat.comm, stream));
    NCCL_OK(ncclGroupEnd());
  }
  on.end();
  for (int round = 0; round < 3; ++round) {
    for (DeviceBuffer& buffer : out) buffer.put({}, 0, seat.stream);
    GPU_OK(gpu_api()->launch_graph(on.graph, seat.stream));
    for (int i = 0; i < 2; ++i) {
      out[i].get(seat.stream);
      const Bytes want(kBytes, static_cast<std::byte>(10 * i + peer + 1));
      ASSERT_EQ(std::memcmp(out[i].host(), want.data(), kBytes), 0)
          << "message " << i << " round " << round;
    }
  }
}

void replay_sums_of_several_factors(NcclRank& seat) {
  constexpr std::size_t kCount = 700;
  constexpr std::int64_t kOnDevice = 7;
  std::int64_t factors[] = {2, 3, 0, kOnDevice};
  DeviceBuffer x(kCount * sizeof(std::int64_t), 0), factor(sizeof(std::int64_t), 0);
  std::vector<std::int64_t> numbers(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    numbers[i] = static_cast<std::int64_t>(i) * 10 + seat.rank;
  put_numbers(x, numbers, seat.stream);
  put_numbers(factor, {kOnDevice}, seat.stream);
  // All on the same buffers: each sum is copied out before the next one.
  DeviceBuffer sum(kCount * sizeof(std::int64_t), 0);
  std::vector<DeviceBuffer> sums;
  std::vector<ncclRedOp_t> ops;
  for (std::int64_t& one : factors) {
    const bool late = one == kOnDevice;
    NCCL_OK(ncclRedOpCreatePreMulSum(&ops.emplace_back(),
                                     late ? static_cast<void*>(factor.data()) : &one, ncclInt64,
                                     late ? ncclScalarDevice : ncclScalarHostImmediate, seat.comm));
    sums.emplace_back(kCount * sizeof(std::int64_t), 0);
  }
  void* graph = nullptr;
  GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
  for (std::size_t k = 0; k < ops.size(); ++k) {
    NCCL_OK(ncclAllReduce(x.data(), sum.data(), kCount, ncclInt64, ops[k], seat.comm, seat.stream));
    GPU_OK(gpu_api()->copy(sums[k].data(), sum.data(), kCount * sizeof(std::int64_t),
                           GpuCopy::kDeviceToDevice, seat.stream));
  }
  GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
  for (int round = 0; round < 2; ++round) {
    GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
    for (std::size_t k = 0; k < ops.size(); ++k) {
      sums[k].get(seat.stream);
      const std::int64_t n = seat.size;
      for (std::size_t i = 0; i < kCount; ++i) {
        const std::int64_t plain = static_cast<std::int64_t>(i) * 10 * n + n * (n - 1) / 2;
        ASSERT_EQ(number_at(sums[k], i), plain * factors[k])
            << "factor " << factors[k] << " element " << i << " round " << round;
      }
    }
  }
  GPU_OK(gpu_api()->destroy_graph(graph));
  for (const ncclRedOp_t op : ops) NCCL_OK(ncclRedOpDestroy(op, seat.comm));
}

void reduce_every_type_and_operation(NcclRank& seat, const std::vector<Collective>& in_turn,
                                     unsigned seed) {
  for (int op = 0; op < kRedOps; ++op)
    for (int t = 0; t < kDataTypes; ++t) {
      // Integers wrap the same way in any order; floats use only operations that do not round.
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

ncclResult_t sum_once(NcclRank& seat, DeviceBuffer& buffer, std::size_t count) {
  ncclResult_t result = ncclAllReduce(buffer.data(), buffer.data(), count, ncclFloat32, ncclSum,
                                      seat.comm, seat.stream);
  if (result != ncclSuccess) return result;
  EXPECT_EQ(gpu_api()->synchronize_stream(seat.stream), kGpuSuccess);
  EXPECT_EQ(ncclCommGetAsyncError(seat.comm, &result), ncclSuccess);
  return result;
}

void report_and_abort(NcclRank& seat, ncclResult_t result) {
  seat.report(Error{static_cast<StatusCode>(result), ncclGetLastError(seat.comm)});
  NCCL_OK(ncclCommAbort(seat.comm));
  seat.comm = nullptr;
}

void sum_until_error(NcclRank& seat, std::size_t count) {
  DeviceBuffer buffer(count * sizeof(float), 0);
  buffer.put(Bytes(count * sizeof(float)), 0, seat.stream);
  seat.mark(1);
  ncclResult_t result = ncclSuccess;
  while ((result = sum_once(seat, buffer, count)) == ncclSuccess) {
  }
  report_and_abort(seat, result);
}

int calls_until_timeout(NcclRank& seat, const std::function<ncclResult_t()>& call) {
  EXPECT_EQ(call(), ncclSuccess) << ncclGetLastError(seat.comm);
  EXPECT_EQ(gpu_api()->synchronize_stream(seat.stream), kGpuSuccess);
  EXPECT_TRUE(seat.board.meet());
  int made = 0;
  if (seat.rank == 1) {
    EXPECT_TRUE(seat.wait_flag(1));
    return made;
  }
  EXPECT_EQ(rondoCommSetTimeout(seat.comm, 1), ncclSuccess);
  ncclResult_t result = ncclSuccess;
  for (; made < 1000 && result == ncclSuccess; ++made) result = call();
  EXPECT_EQ(result, ncclTimeout);
  const std::string text = ncclGetLastError(seat.comm);
  EXPECT_NE(text.find("calls ahead of rank 1"), std::string::npos) << text;
  EXPECT_NE(text.find("the communicator's timeout sets this limit"), std::string::npos) << text;
  seat.board.flag = 1;
  return made;
}

std::string differs_from_timeout(const RankProcesses& processes, int late,
                                 const std::string& part) {
  for (int r = 0; r < processes.size(); ++r)
    if (r != late && (processes.status(r) != StatusCode::kTimeout ||
                      processes.text(r).find(part) == std::string::npos))
      return fmt::format("rank {}: status {}, {}", r, static_cast<int>(processes.status(r)),
                         processes.text(r));
  return "";
}

void expect_reports(RankProcesses& processes, int ranks, StatusCode status, const std::string& part,
                    int victim) {
  for (int r = 0; r < ranks; ++r) {
    if (r == victim) continue;
    EXPECT_EQ(processes.status(r), status) << processes.text(r);
    EXPECT_NE(processes.text(r).find(part), std::string::npos) << processes.text(r);
  }
}

}  // namespace rondo::test
