// SPDX-License-Identifier: Apache-2.0
// Every collective, type, operation and rank count on a GPU against the reference.
#include "kernels/reduce.h"
#include "tests/gpu/device_case.h"

namespace rondo::test {
namespace {

class DeviceCollectives : public testing::TestWithParam<int> {};

constexpr Collective kAll[] = {
    Collective::kAllReduce,     Collective::kReduce,   Collective::kBroadcast,
    Collective::kAllGather,     Collective::kGather,   Collective::kScatter,
    Collective::kReduceScatter, Collective::kAllToAll,
};

TEST_P(DeviceCollectives, EqualTheReferenceForEveryTypeAndOperation) {
  DeviceRanks ranks(GetParam());
  unsigned seed = 1;
  for (int type = 0; type < kDataTypes; ++type) {
    for (int op = 0; op < kRedOps; ++op) {
      Case c{Collective::kAllReduce,
             static_cast<DataType>(type),
             static_cast<RedOp>(op),
             GetParam(),
             0,
             37,
             ++seed};
      if (!supported(c.type, c.op)) continue;
      run_grouped(ranks, c, seed % 2 == 0, 0);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(DeviceCollectives, EqualTheReferenceForOddSizesAndAlignments) {
  const int n = GetParam();
  DeviceRanks ranks(n);
  unsigned seed = 1000;
  for (Collective collective : kAll) {
    for (std::size_t count : {0, 1, 3, 129, 1000}) {
      ++seed;
      const DataType type = seed % 3 == 0   ? DataType::kUint8
                            : seed % 3 == 1 ? DataType::kBfloat16
                                            : DataType::kFloat32;
      const Case c{collective, type, RedOp::kSum, n, static_cast<int>(seed % n), count, seed};
      const bool in_place = collective != Collective::kAllToAll && seed % 2 == 0;
      run_grouped(ranks, c, in_place, seed % 5 * size_of(type));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(DeviceCollectives, MeetWhereEveryRankIsAThread) {
  const int n = GetParam();
  DeviceRanks ranks(n);
  const Case c{Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, n, 0, 1000, 7};
  DeviceCase test(ranks, c, true, 0);
  test.fill_inputs();
  std::vector<ncclResult_t> results(n);
  on_threads(n, [&](int r) { results[r] = test.call(r); });
  for (ncclResult_t result : results) ASSERT_EQ(result, ncclSuccess);
  test.check();
}

TEST_P(DeviceCollectives, PassMessagesRoundARing) {
  const int n = GetParam();
  DeviceRanks ranks(n);
  constexpr std::size_t kBytes = 1001;
  std::vector<DeviceBuffer> in, out;
  for (int r = 0; r < n; ++r) {
    in.emplace_back(kBytes, r);
    out.emplace_back(kBytes, 2 * r);
    in[r].put(Bytes(kBytes, static_cast<std::byte>(r + 1)), 0, ranks[r].stream);
    out[r].put({}, 0, ranks[r].stream);
  }
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < n; ++r) {
    NCCL_OK(ncclSend(in[r].data(), kBytes, ncclUint8, (r + 1) % n, ranks[r].comm, ranks[r].stream));
    NCCL_OK(ncclRecv(out[r].data(), kBytes, ncclUint8, (r + n - 1) % n, ranks[r].comm,
                     ranks[r].stream));
  }
  NCCL_OK(ncclGroupEnd());
  for (int r = 0; r < n; ++r) {
    out[r].get(ranks[r].stream);
    const Bytes want(kBytes, static_cast<std::byte>((r + n - 1) % n + 1));
    ASSERT_EQ(std::memcmp(out[r].host(), want.data(), kBytes), 0) << "rank " << r;
    ASSERT_TRUE(out[r].guards_intact());
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceCollectives, testing::Values(1, 2, 3, 5, 8));

}  // namespace
}  // namespace rondo::test
