// SPDX-License-Identifier: Apache-2.0
// Rondo's side of bench/compare.sh; uses nccl.h as any program would.
//
//   rondo_contestant FOLDER [--threads N] [--alloc]
// Ranks are processes (RANK and WORLD_SIZE) or the N threads of one; --alloc takes buffers from
// ncclMemAlloc. Commands besides those of loop.h:
//   join                       answers with the times at ncclCommInitRank's entry and return
//   grouped ...                as in loop.h, the calls of each block in one group
//   to_and_fro all_reduce ...  two ranks: each call is one message, the direction alternates
//   in_turns broadcast ...     (or reduce) each call has the next root, so that no root runs ahead
//   children <count>           splits off `count` communicators of all ranks, uses each once
//   idle <ms>                  cost when nothing moves
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string_view>
#include <thread>

#include "api/launch_env.h"
#include "api/nccl.h"
#include "api/rondo.h"
#include "bench/compare/loop.h"

namespace {

void must(ncclResult_t result) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "rondo: %s\n", ncclGetLastError(nullptr));
  std::exit(5);
}

using compare::now;

struct Rondo {
  float* allocate(std::size_t bytes) {
    if (!alloc) return compare::allocate_plain(bytes);
    void* memory = nullptr;
    must(ncclMemAlloc(&memory, bytes));
    return static_cast<float*>(memory);
  }
  void release(float* memory) {
    if (alloc) {
      must(ncclMemFree(memory));
    } else {
      std::free(memory);
    }
  }

  void calls(const compare::Task& task, int count) {
    if (to_and_fro) return messages(task, count);
    if (grouped) must(ncclGroupStart());
    for (int i = 0; i < count; ++i) must(call(task));
    if (grouped) must(ncclGroupEnd());
  }

  void messages(const compare::Task& task, int count) {
    came.resize(task.count);
    for (int i = 0; i < count; ++i, ++turn) {
      if ((turn + static_cast<unsigned>(rank)) % 2 == 0) {
        must(ncclSend(task.send, task.count, ncclFloat32, 1 - rank, comm, nullptr));
      } else {
        must(ncclRecv(came.data(), task.count, ncclFloat32, 1 - rank, comm, nullptr));
      }
    }
    std::transform(came.begin(), came.end(), task.send, task.receive, std::plus<>());
  }

  ncclResult_t call(const compare::Task& t) {
    using compare::Operation;
    switch (t.operation) {
      case Operation::kAllReduce:
        return ncclAllReduce(t.send, t.receive, t.count, ncclFloat32, ncclSum, comm, nullptr);
      case Operation::kReduce:
        return ncclReduce(t.send, t.receive, t.count, ncclFloat32, ncclSum, root(), comm, nullptr);
      case Operation::kBroadcast:  // rank 0 is the first root; later roots have its data
        return ncclBcast(rank == 0 ? t.send : t.receive, t.count, ncclFloat32, root(), comm,
                         nullptr);
      case Operation::kAllGather:
        return ncclAllGather(t.send, t.receive, t.count, ncclFloat32, comm, nullptr);
      case Operation::kReduceScatter:
        return ncclReduceScatter(t.send, t.receive, t.count, ncclFloat32, ncclSum, comm, nullptr);
      case Operation::kAllToAll:
        return ncclAlltoAll(t.send, t.receive, t.count, ncclFloat32, comm, nullptr);
      case Operation::kGather:
        return ncclGather(t.send, t.receive, t.count, ncclFloat32, 0, comm, nullptr);
      case Operation::kScatter:
        return ncclScatter(t.send, t.receive, t.count, ncclFloat32, 0, comm, nullptr);
      default:
        return rondoBarrier(comm, nullptr);
    }
  }

  int root() { return in_turns ? static_cast<int>(turn++) % ranks : 0; }

  ncclComm_t comm = nullptr;
  int rank = 0, ranks = 1;
  long descriptors = 0;  // of this process, after joining
  unsigned turn = 0;     // number of messages or roots so far
  std::vector<float> came;
  bool alloc = false, grouped = false, to_and_fro = false, in_turns = false;
};

long descriptors() {
  using Entries = std::filesystem::directory_iterator;
  return std::distance(Entries("/proc/self/fd"), Entries());
}

// CPU seconds of this process.
double taken() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

std::string join(Rondo& rondo, const std::string& folder, int ranks, const ncclUniqueId& id) {
  const double entered = now();
  must(ncclCommInitRank(&rondo.comm, ranks, id, rondo.rank));
  const double left = now();
  rondo.descriptors = descriptors();
  compare::bind(folder, rondo.rank);
  char text[64];
  std::snprintf(text, sizeof text, "ok %.9f %.9f", entered, left);
  return text;
}

std::string make_children(Rondo& rondo, int count) {
  const ncclComm_t parent = rondo.comm;
  std::vector<float> values(256 << 10, 1.0f);
  for (int i = 0; i < count; ++i) {
    must(ncclCommSplit(parent, 0, 0, &rondo.comm, nullptr));
    must(rondo.call({compare::Operation::kAllReduce, values.data(), values.data(), values.size()}));
  }
  rondo.comm = parent;
  return "ok";
}

// Answers with the used shares of a core: between calls, and (rank 0) in a call that the other
// ranks enter `milliseconds` later; then the number of descriptors that the calls opened.
std::string idle(Rondo& rondo, int milliseconds) {
  float value = 1;
  const auto call = [&] { must(rondo.call({compare::Operation::kAllReduce, &value, &value, 1})); };
  const auto share = [&](bool calls) {
    const double before = taken(), since = now();
    if (!calls || rondo.rank != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    if (calls) call();
    return (taken() - before) / (now() - since);
  };
  call();
  const double between = share(false), waiting = share(true);
  char text[96];
  std::snprintf(text, sizeof text, "ok %.6f %.6f %ld", between, waiting,
                descriptors() - rondo.descriptors);
  return text;
}

void run_rank(Rondo rondo, const std::string& folder, int ranks, const ncclUniqueId& id) {
  rondo.ranks = ranks;
  compare::Pipes pipes(folder, rondo.rank);
  pipes.answer("ready");
  for (std::string line; pipes.read(&line) && line != "quit";) {
    int children = 0, milliseconds = 0;
    if (line == "join") {
      pipes.answer(join(rondo, folder, ranks, id));
    } else if (std::sscanf(line.c_str(), "children %d", &children) == 1) {
      pipes.answer(make_children(rondo, children));
    } else if (std::sscanf(line.c_str(), "idle %d", &milliseconds) == 1) {
      pipes.answer(idle(rondo, milliseconds));
    } else {
      const auto begins_with = [&](std::string_view word) { return line.rfind(word, 0) == 0; };
      rondo.grouped = begins_with("grouped ");
      rondo.to_and_fro = begins_with("to_and_fro ");
      rondo.in_turns = begins_with("in_turns ");
      if (rondo.grouped || rondo.to_and_fro || rondo.in_turns) line.erase(0, line.find(' ') + 1);
      rondo.turn = 0;
      pipes.answer(compare::measure(rondo, folder, rondo.rank, ranks, line));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  Rondo rondo;
  int threads = 0;
  for (int i = 2; i < argc; ++i) {
    if (std::strcmp(argv[i], "--alloc") == 0) rondo.alloc = true;
    if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc) threads = std::atoi(argv[++i]);
  }
  ncclUniqueId id;
  if (threads > 0) {
    must(ncclGetUniqueId(&id));
    std::vector<std::thread> ranks;
    for (int r = 0; r < threads; ++r) {
      rondo.rank = r;
      ranks.emplace_back(run_rank, rondo, folder, threads, id);
    }
    for (std::thread& rank : ranks) rank.join();
    return 0;
  }
  rondo_launch_t me;
  if (rondo_launch_read(&me) < 0) return 1;
  if (me.rank == 0) must(ncclGetUniqueId(&id));
  if (rondo_launch_broadcast(&me, &id, sizeof id, 60.0) != 0) return 1;
  rondo.rank = me.rank;
  run_rank(rondo, folder, me.size, id);
  return 0;
}
