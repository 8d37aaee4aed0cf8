// SPDX-License-Identifier: Apache-2.0
// A job that makes and destroys communicators while strangers disturb it. Ranks are processes, on
// one host or on several pretended ones. Every round makes a communicator, checks an all-reduce,
// splits it, checks the halves and destroys all.
//
//   trust_job RANKS ROUNDS [HOSTS [LATE_MS]]      ROUNDS 0: until standard input ends
//   trust_job RANKS watched HOSTS
//
// watched: one communicator, and an all-reduce every 10 ms until standard input ends. Each host has
// its own folder of status sockets in RONDO_STATUS_DIR.
// The last rank arrives LATE_MS milliseconds after the others, whose listeners are open meanwhile.
// It prints one line of JSON per round: the seconds that its ncclCommInitRank took. A call that
// fails, or a wrong sum, ends the job with status 1 and a message.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "nccl.h"

namespace {

using Clock = std::chrono::steady_clock;

void require(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s: %s\n", call, ncclGetErrorString(result), ncclGetLastError(nullptr));
  std::_Exit(1);
}

// The sum over the ranks of `rank + index`, checked in every element.
void check_sum(ncclComm_t comm, int rank, int ranks) {
  std::vector<int> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = rank + static_cast<int>(i);
  require(
      ncclAllReduce(values.data(), values.data(), values.size(), ncclInt32, ncclSum, comm, nullptr),
      "ncclAllReduce");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int expected = ranks * (ranks - 1) / 2 + ranks * static_cast<int>(i);
    if (values[i] == expected) continue;
    std::fprintf(stderr, "rank %d of %d: element %zu is %d, not %d\n", rank, ranks, i, values[i],
                 expected);
    std::_Exit(1);
  }
}

void run_round(int rank, int ranks, const ncclUniqueId& id, int round, int late_ms) {
  const bool last = rank == ranks - 1;
  if (last) usleep(static_cast<useconds_t>(late_ms) * 1000);
  const auto begin = Clock::now();
  ncclComm_t comm;
  require(ncclCommInitRank(&comm, ranks, id, rank), "ncclCommInitRank");
  const std::chrono::duration<double> took = Clock::now() - begin;
  check_sum(comm, rank, ranks);
  ncclComm_t half;
  const int color = rank % 2;
  require(ncclCommSplit(comm, color, rank, &half, nullptr), "ncclCommSplit");
  check_sum(half, rank / 2, (ranks - color + 1) / 2);
  require(ncclCommDestroy(half), "ncclCommDestroy");
  require(ncclCommDestroy(comm), "ncclCommDestroy");
  if (last) {
    std::printf("{\"round\": %d, \"init\": %.6f}\n", round, took.count());
    std::fflush(stdout);
  }
}

// Rank 0 says in each call if another one follows.
void run_watched(int rank, int ranks, const ncclUniqueId& id, bool (*goes_on)(int, int)) {
  ncclComm_t comm;
  require(ncclCommInitRank(&comm, ranks, id, rank), "ncclCommInitRank");
  for (int more = 1; more != 0; usleep(10'000)) {
    more = rank == 0 && goes_on(0, 0) ? 1 : 0;
    require(ncclAllReduce(&more, &more, 1, ncclInt32, ncclSum, comm, nullptr), "ncclAllReduce");
  }
  require(ncclCommDestroy(comm), "ncclCommDestroy");
}

bool goes_on(int round, int rounds) {
  if (rounds != 0) return round < rounds;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) == 0;
}

// Each rank receives ids over its own pipe, so no other process can read them. Its end means that
// there are no more rounds.
void run_rank(int rank, int ranks, int rounds, int late_ms, int from_root,
              const std::vector<int>& to_ranks, bool watched) {
  for (int round = 0;; ++round) {
    ncclUniqueId id;
    if (rank == 0) {
      if (!goes_on(round, rounds)) return;
      require(ncclGetUniqueId(&id), "ncclGetUniqueId");
      for (int to = 1; to < ranks; ++to)
        if (write(to_ranks[to], &id, sizeof(id)) != sizeof(id)) std::_Exit(1);
    } else if (read(from_root, &id, sizeof(id)) != sizeof(id)) {
      return;  // if rank 0 failed, it has printed the reason
    }
    if (watched) return run_watched(rank, ranks, id, goes_on);
    run_round(rank, ranks, id, round, late_ms);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 0;
  const bool watched = argc > 2 && std::strcmp(argv[2], "watched") == 0;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 0;
  const int hosts = argc > 3 ? std::atoi(argv[3]) : 1;
  const int late_ms = argc > 4 ? std::atoi(argv[4]) : 0;
  if (ranks < 1 || rounds < 0 || hosts < 1 || late_ms < 0 || late_ms > 60'000) {
    std::fprintf(stderr,
                 "usage: trust_job RANKS ROUNDS [HOSTS [LATE_MS]], ROUNDS 0: until input ends\n");
    return 2;
  }
  std::vector<int> reads(ranks), writes(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (pipe(ends) != 0) return 1;
    reads[rank] = ends[0];
    writes[rank] = ends[1];
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (fork() != 0) continue;
    const std::string host = std::to_string(rank % hosts);
    if (hosts > 1) setenv("NCCL_HOSTID", host.c_str(), 1);
    const char* const sockets = std::getenv("RONDO_STATUS_DIR");
    if (watched && sockets != nullptr)
      setenv("RONDO_STATUS_DIR", (std::string(sockets) + "/" + host).c_str(), 1);
    for (int other = 0; other < ranks; ++other) {
      if (other != rank) close(reads[other]);
      if (rank != 0) close(writes[other]);
    }
    run_rank(rank, ranks, rounds, late_ms, reads[rank], writes, watched);
    std::_Exit(0);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    close(reads[rank]);
    close(writes[rank]);
  }
  int worst = 0;
  for (int status; wait(&status) > 0;)
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) worst = 1;
  return worst;
}
