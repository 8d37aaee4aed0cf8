// SPDX-License-Identifier: Apache-2.0
// rondoAllToAllvDevice: counts and offsets that are wrong, bad arguments, and host memory.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/gpu/counted_exchanges.h"
#include "tests/support/processes.h"
#include "tests/support/waits.h"

namespace rondo::test {
namespace {

// ---- Wrong counts ------------------------------------------------------------------------------

// All ranks learn of it, and of both numbers.
void expect_fault(NcclRank& seat, const std::string& part) {
  ncclResult_t state = ncclSuccess;
  EXPECT_TRUE(wait_until([&] {
    return ncclCommGetAsyncError(seat.comm, &state) != ncclSuccess || state != ncclSuccess;
  }));
  EXPECT_EQ(state, ncclInvalidUsage);
  const std::string text = ncclGetLastError(seat.comm);
  EXPECT_NE(text.find(part), std::string::npos) << text << ", not: " << part;
}

const NamedLayout kWrongPlaces[] = {
    {"processes", with_small_slots(as_processes(3, Gpus::kOneEach))},
    {"threads", with_small_slots({{{0, 1, 2}}})},
    {"one_gpu", {{{0, 0, 0}}}},
    {"hosts", {{{0}, {1}, {2}}, {"a", "a", "b"}}},
};
class WrongCountsOf : public testing::TestWithParam<NamedLayout> {};
INSTANTIATE_TEST_SUITE_P(Places, WrongCountsOf, testing::ValuesIn(kWrongPlaces),
                         [](const auto& info) { return std::string(info.param.name); });

// What is wrong of what rank 1 sends to rank 2.
struct WrongPart {
  std::optional<std::size_t> sent{}, sent_at{}, expected{}, expected_at{};
  std::string text{};
  bool packed = true;
};

void exchange_wrong(NcclRank& seat, const WrongPart& wrong, bool shareable) {
  {
    Exchanges one(seat, 100, wrong.packed, shareable);
    one.fill(0);
    const auto set = [&](int rank, DeviceNumbers& numbers, int peer,
                         std::optional<std::size_t> value) {
      if (seat.rank != rank || !value) return;
      Numbers all = numbers.get(static_cast<std::size_t>(seat.size), seat.stream);
      all[static_cast<std::size_t>(peer)] = *value;
      numbers.put(all, seat.stream);
    };
    set(1, one.sent(), 2, wrong.sent);
    set(1, one.sent_at(), 2, wrong.sent_at);
    set(2, one.expected(), 1, wrong.expected);
    set(2, one.expected_at(), 1, wrong.expected_at);
    ASSERT_TRUE(seat.board.meet());
    const ncclResult_t called = one.call();  // a late rank learns of the others' error here
    EXPECT_TRUE(called == ncclSuccess || called == ncclInvalidUsage) << called;
    expect_fault(seat, wrong.text);
    EXPECT_NE(one.call(), ncclSuccess);
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    if (seat.rank == 2) one.check_untouched(1, 0);
    ASSERT_TRUE(seat.board.meet());
  }
  NCCL_OK(ncclCommAbort(seat.comm));
  seat.comm = nullptr;
}

void run_wrong(const Layout& layout, const WrongPart& wrong, bool shareable = false) {
  run_job(layout, [&](NcclRank& seat) { exchange_wrong(seat, wrong, shareable); });
}

constexpr std::size_t kSentToTwo = 100;  // as counted() says

TEST_P(WrongCountsOf, APairAreAnErrorOfBothNumbers) {
  ASSERT_EQ(counted(1, 2, 0, 100), kSentToTwo);
  run_wrong(GetParam().layout,
            {.expected = 3, .text = "rank 1 sends 100 elements to rank 2, which expects 3"});
  run_wrong(GetParam().layout,
            {.expected = 0, .text = "rank 1 sends 100 elements to rank 2, which expects 0"});
}
TEST_P(WrongCountsOf, ASenderAreAnErrorOfBothNumbers) {
  run_wrong(GetParam().layout,
            {.sent = 101, .text = "rank 1 sends 101 elements to rank 2, more than maxcount 100"});
  run_wrong(GetParam().layout,
            {.sent = 101,
             .text = "rank 1 sends 101 elements to rank 2, more than maxcount 100",
             .packed = false});
  // In bytes it would be 0.
  run_wrong(GetParam().layout,
            {.sent = std::size_t{1} << 62,
             .text = "rank 1 sends 4611686018427387904 elements to rank 2, more than maxcount"});
}
// Offsets, too, the sum of which and of the count may be too large for 64 bits.
TEST_P(WrongCountsOf, ABufferAreAnErrorOfItsEnd) {
  for (const bool shareable : {false, true}) {
    run_wrong(GetParam().layout,
              {.sent_at = 10'000'000,
               .text = "rank 1: the part of sendbuff for rank 2 ends at element 10000100, but its "
                       "memory at element "},
              shareable);
    run_wrong(GetParam().layout,
              {.expected_at = ~std::size_t{0},
               .text = "rank 2: the part of recvbuff from rank 1 ends at element "
                       "18446744073709551615, but its memory at element "},
              shareable);
  }
}

// ---- Beside rondoAllToAllv -------------------------------------------------------------------

const NamedLayout kBesidePlaces[] = {
    {"processes", with_small_slots(as_processes(2, Gpus::kOneEach))},
    {"threads", with_small_slots({{{0, 1}}})},
};
class CountedBesideAllToAllv : public testing::TestWithParam<NamedLayout> {};
INSTANTIATE_TEST_SUITE_P(Places, CountedBesideAllToAllv, testing::ValuesIn(kBesidePlaces),
                         [](const auto& info) { return std::string(info.param.name); });

// One rank counts on the device, the other on the host, either of them first: an error of both on
// both, and nothing of the pair moves.
TEST_P(CountedBesideAllToAllv, IsAnErrorOfBoth) {
  for (const int on_device : {0, 1})
    for (const int first : {0, 1})
      run_job(GetParam().layout, [=](NcclRank& seat) {
        {
          Exchanges one(seat, 100, true);
          one.fill(2);
          ASSERT_GT(one.receives(1 - seat.rank, 2), 0u);
          if (seat.rank != first) {
            ASSERT_TRUE(seat.board.meet());
          }
          const ncclResult_t called =
              seat.rank == on_device ? one.call() : one.call_with_counts_on_the_host(2);
          EXPECT_EQ(called, seat.rank == first ? ncclSuccess : ncclInvalidUsage);
          if (seat.rank == first) {
            ASSERT_TRUE(seat.board.meet());
          }
          expect_fault(seat, fmt::format("rank {} called AllToAllV(count 100, uint32)", on_device));
          const std::string text = ncclGetLastError(seat.comm);
          EXPECT_NE(text.find(fmt::format("rank {} called ", 1 - on_device)), std::string::npos)
              << text;
          GPU_OK(gpu_api()->synchronize_stream(seat.stream));
          one.check_untouched(1 - seat.rank, 2);
          ASSERT_TRUE(seat.board.meet());
        }
        NCCL_OK(ncclCommAbort(seat.comm));
        seat.comm = nullptr;
      });
}

// On another host, data may have moved before the error, which then comes with a later call. These
// data, which are zeros, are even taken for a count.
TEST(CountedMessagesInput, BesideAllToAllvOnAnotherHostIsAnErrorOfBoth) {
  run_job(Layout{{{0}, {1}}, {"a", "b"}}, [](NcclRank& seat) {
    {
      constexpr std::size_t kCount = 4;
      DeviceBuffer out(2 * kCount * 4, 0), in(2 * kCount * 4, 0);
      DeviceNumbers sent(2);
      out.put(Bytes(2 * kCount * 4), 0, seat.stream);
      sent.put({kCount, kCount}, seat.stream);
      const Numbers counts{kCount, kCount}, offsets{0, kCount};
      ASSERT_TRUE(seat.board.meet());
      const ncclResult_t called =
          seat.rank == 0
              ? rondoAllToAllvDevice(out.data(), sent.at(), nullptr, in.data(), nullptr, nullptr,
                                     nullptr, kCount, ncclUint32, seat.comm, seat.stream)
              : rondoAllToAllv(out.data(), counts.data(), offsets.data(), in.data(), counts.data(),
                               offsets.data(), ncclUint32, seat.comm, seat.stream);
      EXPECT_TRUE(called == ncclSuccess || called == ncclInvalidUsage) << called;
      const auto calls_until_fault = [&] {
        ncclResult_t state = ncclSuccess;
        EXPECT_EQ(ncclGroupStart(), ncclSuccess);
        (void)ncclSend(out.data(), 4, ncclInt8, 1 - seat.rank, seat.comm, seat.stream);
        (void)ncclRecv(in.data(), 4, ncclInt8, 1 - seat.rank, seat.comm, seat.stream);
        if (ncclGroupEnd() != ncclSuccess) return true;
        EXPECT_EQ(gpu_api()->synchronize_stream(seat.stream), kGpuSuccess);
        return ncclCommGetAsyncError(seat.comm, &state) != ncclSuccess || state != ncclSuccess;
      };
      EXPECT_TRUE(wait_until(calls_until_fault));
      expect_fault(seat, "rank 0 called AllToAllV(count 4, uint32)");
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      ASSERT_TRUE(seat.board.meet());
    }
    NCCL_OK(ncclCommAbort(seat.comm));
    seat.comm = nullptr;
  });
}

// ---- Arguments -------------------------------------------------------------------------------

TEST(CountedMessagesInput, IsCheckedAtTheCall) {
  run_job(as_processes(2, Gpus::kOneEach), [](NcclRank& seat) {
    DeviceNumbers counts(2);
    DeviceBuffer data(64, 0), other(64, 0);
    std::size_t on_stack[2] = {};
    const auto refuses = [&](ncclResult_t result, ncclResult_t want, const std::string& part) {
      EXPECT_EQ(result, want);
      const std::string text = ncclGetLastError(seat.comm);
      EXPECT_NE(text.find(part), std::string::npos) << text << ", not: " << part;
    };
    const auto call = [&](const void* send, const std::size_t* sent, std::size_t largest) {
      return rondoAllToAllvDevice(send, sent, nullptr, data.data(), nullptr, nullptr, nullptr,
                                  largest, ncclUint32, seat.comm, seat.stream);
    };
    refuses(call(nullptr, counts.at(), 4), ncclInvalidArgument, "sendbuff argument is NULL");
    refuses(call(other.data(), nullptr, 4), ncclInvalidArgument, "sendcounts argument is NULL");
    refuses(call(other.data(), counts.at(), 0), ncclInvalidArgument, "maxcount is 0");
    refuses(call(other.data(), counts.at(), std::size_t{1} << 60), ncclInvalidArgument,
            "count 1152921504606846976 of uint32 times 2 ranks is larger than any buffer");
    refuses(call(other.data(), on_stack, 4), ncclInvalidArgument,
            fmt::format("sendcounts {} is host memory", fmt::ptr(on_stack)));
    refuses(call(data.data() + 8, counts.at(), 4), ncclInvalidArgument, "does not work in place");
    refuses(call(data.data(), counts.at(), 4), ncclInvalidArgument,
            fmt::format("sendbuff {} and recvbuff {} overlap", fmt::ptr(data.data()),
                        fmt::ptr(data.data())));
    ASSERT_TRUE(seat.board.meet());
  });
}

// Nothing waits there: each rank is refused by itself.
TEST(CountedMessagesInput, IsRefusedWhereProcessesShareAGpu) {
  run_job(as_processes(2, Gpus::kOne), [](NcclRank& seat) {
    Exchanges one(seat, 8, true);
    EXPECT_EQ(one.call(), ncclInvalidUsage);
    const std::string text = ncclGetLastError(seat.comm);
    EXPECT_NE(text.find("processes share a GPU"), std::string::npos) << text;
    ASSERT_TRUE(seat.board.meet());
  });
}

// maxcount is compared, as every count that all ranks know.
TEST(CountedMessagesInput, OfDifferentLargestCountsIsNamed) {
  run_job(as_processes(2, Gpus::kOneEach), [](NcclRank& seat) {
    {
      Exchanges one(seat, seat.rank == 0 ? 8 : 9, true);
      one.fill(0);
      ASSERT_TRUE(seat.board.meet());
      (void)one.call();
      expect_fault(seat, "Mismatched calls");
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      ASSERT_TRUE(seat.board.meet());
    }
    NCCL_OK(ncclCommAbort(seat.comm));
    seat.comm = nullptr;
  });
}

// ---- Host memory -------------------------------------------------------------------------------

TEST(CountedMessagesOnTheHost, AreThoseOfAllToAllv) {
  const Job hidden = as_processes(3, Gpus::kNone, {{"CUDA_VISIBLE_DEVICES", "-1"}});
  run_job(hidden, [](NcclRank& seat) {
    constexpr std::size_t kLargest = 50;
    for (unsigned round = 0; round < 3; ++round) {
      std::vector<std::uint32_t> out(3 * kLargest), in(3 * kLargest, 7);
      Numbers sent, received(3);
      for (int to = 0; to < 3; ++to) {
        sent.push_back(counted(seat.rank, to, round, kLargest));
        for (std::size_t i = 0; i < sent.back(); ++i)
          out[static_cast<std::size_t>(to) * kLargest + i] = element(seat.rank, to, round, i);
      }
      NCCL_OK(rondoAllToAllvDevice(out.data(), sent.data(), nullptr, in.data(), nullptr, nullptr,
                                   received.data(), kLargest, ncclUint32, seat.comm, nullptr));
      for (int from = 0; from < 3; ++from) {
        const auto f = static_cast<std::size_t>(from);
        ASSERT_EQ(received[f], counted(from, seat.rank, round, kLargest));
        for (std::size_t i = 0; i < kLargest; ++i)
          ASSERT_EQ(in[f * kLargest + i], i < received[f] ? element(from, seat.rank, round, i) : 7);
      }
    }
    std::uint32_t data[3] = {};
    const Numbers sent{0, 5, 0};
    EXPECT_EQ(rondoAllToAllvDevice(data, sent.data(), nullptr, data, nullptr, nullptr, nullptr, 4,
                                   ncclUint32, seat.comm, nullptr),
              ncclInvalidArgument);
    const std::string text = ncclGetLastError(seat.comm);
    EXPECT_NE(text.find("sendcounts[1] = 5 is more than maxcount 4"), std::string::npos) << text;
  });
}

}  // namespace
}  // namespace rondo::test
