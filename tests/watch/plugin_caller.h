// SPDX-License-Identifier: Apache-2.0
// Caller: librondo-watch.so as NCCL of one version uses it, call by call. And what it shows of the
// ranks of this process.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>

#include "collectives/status/ask.h"
#include "tests/support/processes.h"
#include "tests/support/status_job.h"
#include "tests/watch/simulated_nccl.h"

namespace rondo::test {

namespace abi = profiler::abi;

inline constexpr std::uint64_t kHash = 0xabcd;

// A body in a process of its own: the plugin keeps what it knows until the process ends.
inline void in_process(const std::function<void()>& body, const Environment& more = {}) {
  const StatusJob status;
  Job job(as_processes(1).under(status.environment()).under(more));
  job.create = false;
  run_job(job, [&](RankSeat&) { body(); });
}

inline JobView own_view() {
  auto view = ask_process(getpid(), false);
  return view.ok() ? std::move(*view) : JobView();
}
inline RankView own_rank() {
  const JobView view = own_view();
  return view.communicators.size() == 1 && view.communicators[0].ranks.size() == 1
             ? view.communicators[0].ranks[0]
             : RankView();
}
// Until the thread of the plugin has looked.
inline bool shows(const std::function<bool(const RankView&)>& holds) {
  return wait_until([&] { return holds(own_rank()); });
}

// The plugin as NCCL of one version uses it. Words that only some versions have are left out.
template <class Descriptor, int kVersion>
struct Caller {
  const abi::ProfilerTable& table = plugin_table(RONDO_TEST_WATCH_PLUGIN, kVersion);
  void* context = nullptr;
  int mask = 0;

  void init() {
    if constexpr (kVersion < 4) {
      reinterpret_cast<abi::Init1>(table.init)(&context, &mask);
    } else if constexpr (kVersion == 4) {
      reinterpret_cast<abi::Init4>(table.init)(&context, &mask, "x", kHash, 1, 2, 1, nullptr);
    } else {
      reinterpret_cast<abi::Init5>(table.init)(&context, kHash, &mask, "x", 1, 2, 1, nullptr);
    }
  }
  static Descriptor event_of(abi::Kind kind, void* parent = nullptr) {
    Descriptor event{};
    event.kind = static_cast<decltype(event.kind)>(kind);
    event.parent = parent;
    event.rank = 1;
    return event;
  }
  void* start(Descriptor event) {
    void* handle = nullptr;
    EXPECT_EQ(table.start(context, &handle, &event), 0);
    EXPECT_NE(handle, nullptr) << "NCCL does not pass the events below on";
    return handle;
  }
  void stop(void* handle) { EXPECT_EQ(table.stop(handle), 0); }
  static Descriptor coll(void* parent = nullptr) {
    Descriptor event = event_of(abi::kColl, parent);
    auto& coll = event.coll;
    constexpr std::uint8_t kAllReduceNumber = 4, kFloatNumber = 7;
    if constexpr (kVersion == 1) {
      coll.function = kAllReduceNumber;
      coll.type = kFloatNumber;
    } else {
      coll.function = "AllReduce";
      coll.type = "ncclFloat32";
    }
    if constexpr (requires { coll.communicator; }) {
      coll.communicator = kHash;
      coll.name = "x";
    }
    coll.count = 42;
    coll.root = 0;  // NCCL does not leave it empty
    coll.channels = 2;
    coll.warps = 16;
    return event;
  }
};

}  // namespace rondo::test
