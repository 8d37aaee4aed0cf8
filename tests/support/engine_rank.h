// SPDX-License-Identifier: Apache-2.0
// Ranks with communicators of the engine itself, on host memory.
//
//   const Communicators comms = make_communicators(4);   // ranks as threads of this process
//   run_ranks(comms, [](Communicator& comm) { ... });
//   RankProcesses ranks(4, short_timeouts(), [](EngineRank& seat) { seat.comm->run(...); });
#pragma once

#include <memory>
#include <vector>

#include "tests/support/ranks.h"

namespace rondo::test {

struct EngineRank : RankSeat {
  using RankSeat::RankSeat;
  std::shared_ptr<Communicator> comm;

  Status join(const CommOptions& options) {
    CreateRequest request;
    request.rank = rank;
    request.size = size;
    request.id = board.id;
    request.options = options;
    auto made = Communicator::create(request);
    if (!made.ok()) return made.error();
    comm = *made;
    return ok_status();
  }
  bool begin(const Job& job) {
    if (!job.create) return true;
    const Status joined = join(job.comm);
    if (!joined.ok()) expect(false, "create: " + joined.error().text);
    return joined.ok();
  }
  void report(const Status& result) {
    const auto fault = comm ? comm->fault() : decltype(comm->fault()){};
    RankSeat::report(result, fault ? fault->culprit : -1);
  }
};

using Communicators = std::vector<std::shared_ptr<Communicator>>;

// The default ends no wait on a busy machine, but before the test's own (kLongestWait).
inline CommOptions short_timeouts(double seconds = 120) {
  CommOptions options;
  options.timeout_seconds = seconds;
  options.init_timeout_seconds = seconds;
  return options;
}

inline Communicators make_communicators(int n, const CommOptions& options = short_timeouts()) {
  Ranks<EngineRank> ranks(as_threads(n));
  Communicators comms(static_cast<std::size_t>(n));
  ranks.each([&](EngineRank& seat) {
    const Status joined = seat.join(options);
    if (!joined.ok()) ADD_FAILURE() << "rank " << seat.rank << ": " << joined.error().text;
    comms[seat.rank] = seat.comm;
  });
  return comms;
}

// Runs body once per rank, each on its own thread.
inline void run_ranks(const Communicators& comms, const std::function<void(Communicator&)>& body) {
  for (const auto& comm : comms) ASSERT_NE(comm, nullptr);
  on_threads(static_cast<int>(comms.size()), [&](int rank) { body(*comms[rank]); });
}

}  // namespace rondo::test
