// SPDX-License-Identifier: Apache-2.0
// librondo-watch.so by itself: what it makes of the events of each version of the interface, of
// handles that nobody should use, of forks, and of many communicators; what it costs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/status/ask.h"
#include "collectives/trace/rank_trace.h"
#include "tests/watch/plugin_caller.h"

namespace rondo::test {
namespace {

template <class Descriptor, int kVersion>
void expect_understood() {
  SCOPED_TRACE(kVersion);
  in_process([] {
    using Own = Caller<Descriptor, kVersion>;
    Own nccl;
    nccl.init();
    void* const call = nccl.start(Own::coll());
    nccl.stop(call);
    constexpr bool kHasKernels = kVersion >= 3;
    std::vector<void*> kernels;
    for (int channel = 0; kHasKernels && channel < 2; ++channel)
      kernels.push_back(nccl.start(Own::event_of(abi::kKernelCh, call)));
    EXPECT_TRUE(shows([&](const RankView& rank) {
      return rank.rank == 1 && rank.call == 1 && rank.in_kernel == kHasKernels;
    })) << own_view().to_json().text(1);
    EXPECT_EQ(own_view().communicators.at(0).hash, kHash);
    EXPECT_EQ(own_view().communicators.at(0).name, "x");
    EXPECT_EQ(own_view().communicators.at(0).size, 2);
    EXPECT_EQ(own_rank().watched.value().calls.at(1), "AllReduce(count 42, float32)");
    for (void* const kernel : kernels) {
      EXPECT_EQ(own_rank().finished, 0u) << "a channel still runs";
      nccl.stop(kernel);
    }
    EXPECT_TRUE(shows([](const RankView& rank) { return rank.finished == 1 && !rank.in_kernel; }));
    const auto traces = trace::traces_of_process(getpid());
    ASSERT_TRUE(traces.ok()) << traces.error().text;
    ASSERT_EQ(traces->at(0).calls.size(), 1u);
    EXPECT_TRUE(traces->at(0).calls[0].ended());
    nccl.table.finish(nccl.context);
  });
}

TEST(WatchPlugin, UnderstandsEveryVersionOfTheInterface) {
  expect_understood<abi::Descriptor1, 1>();
  expect_understood<abi::Descriptor2, 2>();
  expect_understood<abi::Descriptor3, 3>();
  expect_understood<abi::Descriptor4, 4>();
  expect_understood<abi::Descriptor5, 5>();
  expect_understood<abi::Descriptor5, 6>();
  expect_understood<abi::Descriptor5, 7>();
}

using Nccl = Caller<abi::Descriptor5, 6>;

abi::Descriptor5 api_call(std::size_t count, bool captured = false) {
  auto event = Nccl::event_of(abi::kCollApi);
  event.coll_api = {"AllReduce", count, "ncclFloat32", 0, nullptr, captured};
  return event;
}
void run_coll(Nccl& nccl, void* parent) {
  void* const coll = nccl.start(Nccl::coll(parent));
  nccl.stop(coll);
  for (int channel = 0; channel < 2; ++channel)
    nccl.stop(nccl.start(Nccl::event_of(abi::kKernelCh, coll)));
}

TEST(WatchPlugin, CountsACallOnceAndEachLaunchOfAGraph) {
  in_process([] {
    Nccl nccl;
    nccl.init();
    void* const plain = nccl.start(api_call(42));
    nccl.stop(plain);
    run_coll(nccl, plain);
    EXPECT_TRUE(shows([](const RankView& rank) { return rank.call == 1 && rank.finished == 1; }));
    void* const captured = nccl.start(api_call(42, true));
    nccl.stop(captured);
    EXPECT_EQ(own_rank().call, 1u) << "captured, not launched";
    for (int launch = 0; launch < 3; ++launch) run_coll(nccl, captured);
    EXPECT_TRUE(shows([](const RankView& rank) { return rank.call == 4 && rank.finished == 4; }));
  });
}

TEST(WatchPlugin, DoesNotWaitForACallOfNoElements) {
  in_process([] {
    Nccl nccl;
    nccl.init();
    nccl.stop(nccl.start(api_call(0)));
    void* const next = nccl.start(api_call(1));
    nccl.stop(next);
    run_coll(nccl, next);
    EXPECT_TRUE(shows([](const RankView& rank) { return rank.call == 1 && rank.finished == 1; }));
  });
}

TEST(WatchPlugin, EndsACallWhoseKernelUsesFewerChannelsThanItWasGiven) {
  in_process([] {
    Nccl nccl;
    nccl.init();
    auto coll = Nccl::coll();
    coll.coll.channels = 8;
    void* const call = nccl.start(coll);
    nccl.stop(call);
    void* const first = nccl.start(Nccl::event_of(abi::kKernelCh, call));
    nccl.stop(nccl.start(Nccl::event_of(abi::kKernelCh, call)));
    EXPECT_TRUE(shows([](const RankView& rank) { return rank.waits_seconds > 0.7; }));
    EXPECT_EQ(own_rank().finished, 0u) << "the first one still runs";
    nccl.stop(first);
    EXPECT_TRUE(shows([](const RankView& rank) { return rank.finished == 1 && !rank.in_kernel; }));
  });
}

TEST(WatchPlugin, CountsOnlyCollectives) {
  in_process([] {
    Nccl nccl;
    nccl.init();
    auto message = Nccl::event_of(abi::kP2p);
    message.p2p = {"Accumulate", nullptr, "ncclInt8", 4, 0, 1, nullptr};  // of a later NCCL
    void* const put = nccl.start(message);
    nccl.stop(put);
    void* const kernel = nccl.start(Nccl::event_of(abi::kKernelCh, put));
    EXPECT_TRUE(shows([](const RankView& rank) { return rank.in_message && rank.call == 0; }));
    nccl.stop(kernel);
    run_coll(nccl, nullptr);
    EXPECT_TRUE(shows([](const RankView& rank) { return rank.call == 1 && rank.finished == 1; }));
  });
}

// Copy engines tell nothing after they are enqueued, and a collective that is made of messages has
// no kernel: neither ends a kernel before it.
TEST(WatchPlugin, EndsWhatItCannotSeeOnceALaterKernelHasBegun) {
  in_process([] {
    Nccl nccl;
    nccl.init();
    void* const hung = nccl.start(Nccl::coll());
    nccl.stop(hung);
    void* const kernels[] = {nccl.start(Nccl::event_of(abi::kKernelCh, hung)),
                             nccl.start(Nccl::event_of(abi::kKernelCh, hung))};
    auto copies = Nccl::coll();
    copies.kind = abi::kCeColl;
    nccl.stop(nccl.start(copies));
    auto all = api_call(42);
    all.coll_api.function = "AlltoAll";
    void* const call = nccl.start(all);
    nccl.stop(call);
    auto message = Nccl::event_of(abi::kP2p, call);
    message.p2p = {"Send", nullptr, "ncclInt8", 4, 0, 1, nullptr};
    void* const send = nccl.start(message);
    nccl.stop(send);
    EXPECT_TRUE(shows([](const RankView& rank) { return rank.in_kernel && rank.call == 3; }));
    EXPECT_EQ(own_rank().finished, 0u) << "the kernel of the first call still runs";
    for (void* const kernel : kernels) nccl.stop(kernel);
    EXPECT_TRUE(shows([](const RankView& rank) { return rank.finished == 1 && !rank.in_kernel; }));
    nccl.start(Nccl::event_of(abi::kKernelCh, send));
    EXPECT_TRUE(shows([](const RankView& rank) { return rank.finished == 3 && rank.in_message; }));
  });
}

TEST(WatchPlugin, WaitsForNoMessageToItself) {
  in_process([] {
    Nccl nccl;
    nccl.init();
    for (const int peer : {1, 0}) {
      auto message = Nccl::event_of(abi::kP2p);
      message.p2p = {"Recv", nullptr, "ncclInt8", 4, peer, 1, nullptr};
      void* const receive = nccl.start(message);
      nccl.stop(receive);
      nccl.start(Nccl::event_of(abi::kKernelCh, receive));
      const int awaited = peer == 1 ? -1 : peer;
      EXPECT_TRUE(shows(
          [&](const RankView& rank) { return rank.in_message && rank.waits_for == awaited; }));
    }
  });
}

// A put needs no call of its target, which waits for nobody before it. A wait for a signal does.
TEST(WatchPlugin, CountsOneSidedOperationsAsNoMessages) {
  in_process([] {
    Nccl nccl;
    nccl.init();
    for (const char* function : {"PutSignal", "Signal", "WaitSignal"}) {
      auto message = Nccl::event_of(abi::kP2p);
      message.p2p = {function, nullptr, "ncclInt8", 4, 0, 1, nullptr};
      void* const event = nccl.start(message);
      nccl.stop(event);
      void* const kernel = nccl.start(Nccl::event_of(abi::kKernelCh, event));
      const std::string name = function == std::string("PutSignal") ? "Put" : function;
      const int awaited = name == "WaitSignal" ? 0 : -1;
      EXPECT_TRUE(shows([&](const RankView& rank) {
        return rank.in_message && rank.waits_in.starts_with(name) && rank.waits_for == awaited &&
               rank.watched->messages.empty();
      })) << own_rank().doing;
      nccl.stop(kernel);
    }
  });
}

TEST(WatchPlugin, IgnoresHandlesThatAreLateOrNotItsOwn) {
  in_process([] {
    Nccl nccl;
    nccl.init();
    void* const coll = nccl.start(Nccl::coll());
    void* const kernel = nccl.start(Nccl::event_of(abi::kKernelCh, coll));
    int elsewhere = 0;
    for (void* const parent : {static_cast<void*>(&elsewhere), static_cast<void*>(nullptr),
                               reinterpret_cast<void*>(~std::uintptr_t{0})}) {
      void* const child = nccl.start(Nccl::event_of(abi::kKernelCh, parent));
      nccl.stop(child);
      nccl.stop(parent);
      nccl.table.record(parent, abi::kRecvWait, nullptr);
    }
    auto foreign = Nccl::event_of(abi::kProxyOp, coll);
    foreign.proxy_op = {getpid() + 1, 0, 0, 1, 1, 0};
    nccl.stop(nccl.start(foreign));
    EXPECT_TRUE(shows([](const RankView& rank) { return rank.in_kernel && rank.finished == 0; }));
    nccl.table.finish(nccl.context);
    nccl.stop(kernel);
    nccl.start(Nccl::coll());
    nccl.table.finish(nccl.context);
    nap(2.1);  // kKeptFor: then its place is free
    Nccl next;
    next.init();
    const auto apart = static_cast<char*>(next.context) - static_cast<char*>(nccl.context);
    ASSERT_LT(std::abs(apart), 64) << "another place";
    nccl.start(Nccl::coll());
    nccl.table.finish(nccl.context);
    void* const call = next.start(Nccl::coll());
    void* const channel = next.start(Nccl::event_of(abi::kKernelCh, call));
    next.stop(next.start(Nccl::event_of(abi::kKernelCh, call)));
    nccl.stop(kernel);  // of the same number there
    EXPECT_TRUE(shows([](const RankView& rank) { return rank.in_kernel && rank.call == 1; }));
    EXPECT_EQ(own_rank().finished, 0u);
    next.stop(channel);
    EXPECT_EQ(own_rank().finished, 1u);
  });
}

TEST(WatchPlugin, LeavesTheParentsRecordAloneInAForkedChild) {
  in_process([] {
    Nccl nccl;
    nccl.init();
    run_coll(nccl, nullptr);
    const pid_t child = fork();
    if (child == 0) {
      run_coll(nccl, nullptr);
      nccl.table.finish(nccl.context);
      Nccl own;
      own.init();
      _exit(own.mask != 0 && own_rank().call == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(shows([](const RankView& rank) {
      return rank.call == 1 && rank.finished == 1 && rank.state == "running";
    }));
  });
}

TEST(WatchPlugin, WatchesThousandsOfCommunicatorsAndLeavesDescriptorsToTheProgram) {
  in_process([] {
    constexpr int kMany = 1500;
    const auto descriptors = [] {
      int open = 0;
      for (int fd = 0; fd < 4096; ++fd) open += fcntl(fd, F_GETFD) >= 0;
      return open;
    };
    const int before = descriptors();
    std::vector<Nccl> all(kMany);
    for (Nccl& nccl : all) nccl.init();
    for (Nccl& nccl : all) run_coll(nccl, nullptr);
    EXPECT_LT(descriptors() - before, 100);
    EXPECT_TRUE(wait_until([] {
      const JobView view = own_view();
      return !view.communicators.empty() && view.communicators[0].ranks.at(0).call == 1;
    }));
    for (Nccl& nccl : all) nccl.table.finish(nccl.context);
    Nccl again;
    again.init();
    EXPECT_NE(again.mask, 0);
  });
}

// The first communicator starts the thread that serves them, the last one ends it.
TEST(WatchPlugin, ServesThreadsThatMakeAndEndCommunicatorsAtATime) {
  in_process([] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([] {
        for (int turn = 0; turn < 1000; ++turn) {
          Nccl nccl;
          nccl.init();
          run_coll(nccl, nullptr);
          nccl.table.finish(nccl.context);
        }
      });
    for (std::thread& thread : threads) thread.join();
    Nccl last;
    last.init();
    EXPECT_TRUE(wait_until([] { return own_rank().rank == 1; }));
  });
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The fastest of many batches: what the machine does besides only makes a batch slower.
TEST(WatchPlugin, CostsLessThanAMicrosecondACall) {
  in_process([] {
    Nccl nccl;
    nccl.init();
    constexpr int kCalls = 1000, kBatches = 30;
    double fastest = std::numeric_limits<double>::max();
    for (int batch = 0; batch < kBatches; ++batch) {
      std::vector<void*> calls, colls;
      calls.reserve(kCalls);
      colls.reserve(kCalls);
      const auto began = std::chrono::steady_clock::now();
      for (int call = 0; call < kCalls; ++call) {  // what the caller's thread does
        auto api = api_call(42);
        auto coll = Nccl::coll();
        void *handle = nullptr, *event = nullptr;
        nccl.table.start(nccl.context, &handle, &api);
        nccl.table.stop(handle);
        coll.parent = handle;
        nccl.table.start(nccl.context, &event, &coll);
        nccl.table.stop(event);
        colls.push_back(event);
      }
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
      fastest = std::min(fastest, taken.count() / kCalls);
      for (void* const coll : colls)
        for (int channel = 0; channel < 2; ++channel)
          nccl.stop(nccl.start(Nccl::event_of(abi::kKernelCh, coll)));
    }
    fmt::print(stderr, "{:.0f} ns a call of four events\n", fastest * 1e9);
    EXPECT_LT(fastest, 1e-6);
  });
}
#endif

TEST(WatchPlugin, WatchesWithoutASocketWhereTheFolderCannotBeMade) {
  in_process(
      [] {
        Nccl nccl;
        nccl.init();
        run_coll(nccl, nullptr);
        const auto view = ask_process(getpid(), false);  // from the open files
        ASSERT_TRUE(view.ok()) << view.error().text;
        EXPECT_EQ(view->communicators.at(0).ranks.at(0).finished, 1u);
      },
      {{"RONDO_STATUS_DIR", "/proc/no/such/folder"}});
}

}  // namespace
}  // namespace rondo::test
