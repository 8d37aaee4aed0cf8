// SPDX-License-Identifier: Apache-2.0
// Thousands of sessions, one thread each: they join and exchange data as a communicator's ranks do.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <chrono>
#include <functional>

#include "transport/bootstrap/session.h"
#include "transport/bootstrap/session_state.h"

namespace rondo::bootstrap {
namespace {

constexpr std::size_t kRecordBytes = 300;
constexpr std::size_t kStackBytes = 256 << 10;

// For a session with `ranks` ranks: two ends per link, at the rendezvous and in the tree, and the
// listeners' descriptors.
rlim_t descriptors_for(int ranks) { return static_cast<rlim_t>(ranks) * 9 / 2 + 500; }

bool may_open(rlim_t descriptors) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur >= descriptors;
}

void on_small_threads(int count, const std::function<void(int)>& body) {
  struct Call {
    const std::function<void(int)>* body;
    int number;
  };
  std::vector<Call> calls;
  for (int i = 0; i < count; ++i) calls.push_back({&body, i});
  std::vector<pthread_t> threads(static_cast<std::size_t>(count));
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, kStackBytes);
  for (std::size_t i = 0; i < threads.size(); ++i) {
    const auto run = [](void* call) -> void* {
      const auto& what = *static_cast<Call*>(call);
      (*what.body)(what.number);
      return nullptr;
    };
    if (pthread_create(&threads[i], &small, run, &calls[i]) != 0) abort();
  }
  pthread_attr_destroy(&small);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
}

std::vector<std::byte> record_of_rank(int rank) {
  std::vector<std::byte> record(kRecordBytes, static_cast<std::byte>(rank));
  record[0] = static_cast<std::byte>(rank >> 8);
  return record;
}

class ManySessions : public testing::TestWithParam<int> {};

TEST_P(ManySessions, JoinAndExchangeInAsManyHopsAsTheTreeHas) {
  const int ranks = GetParam();
  if (!may_open(descriptors_for(ranks)))
    GTEST_SKIP() << "ulimit -Hn is less than " << descriptors_for(ranks);
  const auto id = make_unique_id();
  ASSERT_TRUE(id.ok()) << id.error().text;
  std::vector<Status> results(static_cast<std::size_t>(ranks));
  std::vector<LinkTraffic> moved(static_cast<std::size_t>(ranks));
  const auto began = std::chrono::steady_clock::now();
  on_small_threads(ranks, [&](int rank) {
    results[rank] = [&]() -> Status {
      RONDO_TRY(const auto session,
                Session::join(
                    {.rank = rank, .size = ranks, .id = *id, .timeout = std::chrono::minutes(10)}));
      const LinkTraffic before = session->traffic();
      RONDO_TRY(const auto table, session->all_gather(record_of_rank(rank)));
      moved[rank] = {session->traffic().frames - before.frames,
                     session->traffic().bytes - before.bytes};
      for (int r = 0; r < ranks; ++r)
        if (table[r] != record_of_rank(r))
          return fail(StatusCode::kInternalError, "wrong record of rank {}", r);
      return ok_status();
    }();
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::uint64_t maximum = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    ASSERT_TRUE(results[rank].ok()) << "rank " << rank << ": " << results[rank].error().text;
    const Tree tree{rank, ranks};
    const int neighbours = tree.children() + (tree.root() ? 0 : 1);
    EXPECT_EQ(moved[rank].frames, 2U * static_cast<std::uint64_t>(neighbours)) << rank;
    maximum = std::max(maximum, moved[rank].bytes);
  }
  // Up to rank 0 and down: 2 ceil(log8 n) hops.
  int levels = 0;
  for (long reached = 1; reached < ranks; reached *= kFanout) ++levels;
  EXPECT_LE((Tree{ranks - 1, ranks}.depth()), levels);
  EXPECT_LE((Tree{0, ranks}.height()), levels);
  // All records to each child, and once from or to the parent, with the heads of entries and
  // records.
  const auto all_bytes = static_cast<std::uint64_t>(ranks) * (kRecordBytes + 12);
  EXPECT_LE(maximum, all_bytes * 10 * 102 / 100 + 4096);
  std::printf("%d sessions: %.1f s, at most %.1f kB a rank\n", ranks, took.count(),
              static_cast<double>(maximum) / 1e3);
}
INSTANTIATE_TEST_SUITE_P(Ranks, ManySessions, testing::Values(9, 64, 512, 4096),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace rondo::bootstrap
