// SPDX-License-Identifier: Apache-2.0
// The measuring loop of all contestants of bench/compare.sh.
//
// A contestant is a group of ranks. Each rank sleeps on a pipe until the driver (compare.py) sends
// all of them the same line, "<operation> <bytes> <blocks> <calls> <warm> [<condition>]". The rank
// makes `warm` calls, then `blocks` times `calls` calls, timed per block. It checks the result and
// answers with one line: "ok" and the seconds per call of every block, or "error <why>". So
// contestants alternate within milliseconds, and no rank spins while another contestant is
// measured. Every line allocates, touches and warms up new buffers. `bytes` is the larger buffer of
// a rank, as in nccl-tests. The condition is
//   (none)                    calls in a row; a block's time divided by its calls
//   single                    one call at a time (class Meeting); a block's time is its median
//   real <typical> <seed>     the same, but before each call each rank writes the buffer that it
//                             sends and 8 MiB of its own, and one rank comes up to 2 * <typical>
//                             seconds late (class Lateness). The driver keeps the cores busy.
#pragma once

#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "bench/bound.h"
#include "bench/compare/meeting.h"

namespace compare {

enum class Operation {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kBarrier
};
inline constexpr const char* kOperations[] = {"all_reduce", "reduce",         "broadcast",
                                              "all_gather", "reduce_scatter", "all_to_all",
                                              "gather",     "scatter",        "barrier"};

// One call, always f32, sum and root 0. `count`: elements of a block (all_reduce, reduce and
// broadcast: of the buffer).
struct Task {
  Operation operation;
  float* send;
  float* receive;
  std::size_t count;
};

// The two pipes of a rank, in the group's folder.
class Pipes {
 public:
  Pipes(const std::string& folder, int rank)
      : in_(std::fopen((folder + "/in." + std::to_string(rank)).c_str(), "r")),
        out_(std::fopen((folder + "/out." + std::to_string(rank)).c_str(), "w")) {
    if (in_ == nullptr || out_ == nullptr) std::exit(3);
  }
  bool read(std::string* line) {
    char buffer[256];
    if (std::fgets(buffer, sizeof buffer, in_) == nullptr) return false;
    *line = buffer;
    if (!line->empty() && line->back() == '\n') line->pop_back();
    return true;
  }
  void answer(const std::string& line) {
    std::fprintf(out_, "%s\n", line.c_str());
    std::fflush(out_);
  }

 private:
  std::FILE* in_;
  std::FILE* out_;
};

struct Shape {
  std::size_t count, send, receive;  // elements of a block and of the two buffers
};

inline Shape shape_of(Operation operation, std::size_t bytes, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t whole = bytes / sizeof(float);
  const std::size_t block = whole / n > 0 ? whole / n : 1;
  switch (operation) {
    case Operation::kAllGather:
    case Operation::kGather:
      return {block, block, block * n};
    case Operation::kReduceScatter:
    case Operation::kScatter:
      return {block, block * n, block};
    case Operation::kAllToAll:
      return {block, block * n, block * n};
    case Operation::kBarrier:
      return {1, 1, 1};
    default:
      return {whole, whole, whole};
  }
}

inline float sent(int rank, std::size_t block) {
  return static_cast<float>(rank + 1) + 16.0f * static_cast<float>(block);
}

// Right value of element `at` of the result; negative: any value.
inline float expected(const Task& task, int rank, int ranks, std::size_t at) {
  const int whole = ranks * (ranks + 1) / 2;
  const auto sum = static_cast<float>(whole);
  const auto block = static_cast<int>(at / task.count);
  const auto me = static_cast<std::size_t>(rank);
  switch (task.operation) {
    case Operation::kAllReduce:
      return sum;
    case Operation::kReduce:
      return rank == 0 ? sum : -1;
    case Operation::kBroadcast:
      return rank == 0 ? -1 : sent(0, 0);  // the root's receive buffer is unused
    case Operation::kAllGather:
      return sent(block, 0);
    case Operation::kReduceScatter:
      return sum + 16.0f * static_cast<float>(ranks * rank);
    case Operation::kAllToAll:
      return sent(block, me);
    case Operation::kGather:
      return rank == 0 ? sent(block, 0) : -1;
    case Operation::kScatter:
      return sent(0, me);
    default:
      return -1;
  }
}

inline bool is_right(const Task& task, int rank, int ranks, std::size_t elements) {
  for (std::size_t begin = 0; begin < elements; begin += task.count)
    for (const std::size_t at : {begin, begin + task.count / 2, begin + task.count - 1}) {
      const float value = expected(task, rank, ranks, at);
      if (value >= 0 && task.receive[at] != value) return false;
    }
  return true;
}

// What a line asks for.
struct Request {
  char operation[32], condition[16] = "row";
  std::size_t bytes;
  int blocks, calls, warm;
  Lateness late;

  bool read(const std::string& line) {
    const int words = std::sscanf(line.c_str(), "%31s %zu %d %d %d %15s %lf %lu", operation, &bytes,
                                  &blocks, &calls, &warm, condition, &late.typical, &late.seed);
    const bool known = is("row") || (is("single") && words == 6) || (is("real") && words == 8);
    return words >= 5 && known && (is("row") || calls <= kMaxCalls);
  }
  bool is(const char* name) const { return std::strcmp(condition, name) == 0; }
};

// Calls in a row, timed per block.
template <class Library>
std::vector<double> time_row(Library& library, const Task& task, const Request& asked) {
  std::vector<double> seconds;
  for (int block = 0; block < asked.blocks; ++block) {
    const double start = now();
    library.calls(task, asked.calls);
    seconds.push_back((now() - start) / asked.calls);
  }
  return seconds;
}

// One call at a time. `input`: the buffer that the program writes before each call.
template <class Library>
std::vector<double> time_single(Library& library, const Task& task, const Request& asked,
                                Meeting meeting, std::span<float> input) {
  constexpr std::size_t kOwnData = std::size_t{8} << 20;  // more than a core's L2
  std::vector<std::byte> own(asked.is("real") ? kOwnData : 0);
  std::vector<double> seconds;
  for (int block = 0; block < asked.blocks; ++block) {
    for (int call = 0; call < asked.calls; ++call) {
      if (!own.empty()) {
        touch(input.data(), input.size_bytes());
        touch(own.data(), own.size());
      }
      meeting.meet();
      const double delay =
          asked.late.of(meeting.rank(), meeting.ranks(), block * asked.calls + call);
      for (const double until = now() + delay; delay > 0 && now() < until;) rondo::cpu_relax();
      const double entered = now();
      library.calls(task, 1);
      meeting.note(call, entered, now());
    }
    seconds.push_back(meeting.median(asked.calls));
  }
  return seconds;
}

// Library: float* allocate(bytes), void release(float*), void calls(const Task&, int count). One
// that only reduces in place also has void checked_call(const Task&): its timed calls sum what the
// receive buffer holds, and this last one sums the inputs.
template <class Library>
std::string measure(Library& library, const std::string& folder, int rank, int ranks,
                    const std::string& line) {
  Request asked;
  if (!asked.read(line)) return "error cannot read: " + line;
  int which = 0;
  while (which < 9 && std::strcmp(asked.operation, kOperations[which]) != 0) ++which;
  if (which == 9) return std::string("error unknown operation ") + asked.operation;
  const auto operation = static_cast<Operation>(which);
  const Shape shape = shape_of(operation, asked.bytes, ranks);
  const Task task{operation, library.allocate(shape.send * sizeof(float)),
                  library.allocate(shape.receive * sizeof(float)), shape.count};
  for (std::size_t i = 0; i < shape.send; ++i) task.send[i] = sent(rank, i / shape.count);
  std::memset(task.receive, 0, shape.receive * sizeof(float));

  constexpr bool kInPlace = requires { library.checked_call(task); };
  std::vector<double> seconds;
  library.calls(task, asked.warm);
  if (asked.is("row")) {
    seconds = time_row(library, task, asked);
  } else {
    const std::span input(kInPlace ? task.receive : task.send,
                          kInPlace ? shape.receive : shape.send);
    seconds = time_single(library, task, asked, Meeting(folder, rank, ranks), input);
  }
  if constexpr (kInPlace) library.checked_call(task);
  const bool right = is_right(task, rank, ranks, shape.receive);
  library.release(task.send);
  library.release(task.receive);
  if (!right) return "error wrong result of " + line;
  std::string answer = "ok";
  for (const double each : seconds) {
    char text[32];
    std::snprintf(text, sizeof text, " %.5g", each);
    answer += text;
  }
  return answer;
}

// Every large block is a new mmap, whatever was freed before: the same alignment for all
// contestants.
inline float* allocate_plain(std::size_t bytes) {
  [[maybe_unused]] static const int fixed = mallopt(M_MMAP_THRESHOLD, 64 << 10);
  auto* memory = static_cast<float*>(std::malloc(bytes));
  if (memory == nullptr) std::exit(4);
  return memory;
}

// Binds the calling thread to one core, unless the driver left that to the launcher (the group's
// folder then has a file "unbound"). Call it after joining, so that the library counts all cores.
inline void bind(const std::string& folder, int rank) {
  if (access((folder + "/unbound").c_str(), F_OK) != 0) rondo::bench::bind_to_cpu(rank);
}

// For the head of the results. Call it on rank 0, before serve().
inline void report_version(const std::string& folder, const std::string& text) {
  if (std::FILE* file = std::fopen((folder + "/version").c_str(), "w")) {
    std::fputs(text.c_str(), file);
    std::fclose(file);
  }
}

template <class Library>
void serve(Library& library, const std::string& folder, int rank, int ranks) {
  Pipes pipes(folder, rank);
  pipes.answer("ready");
  for (std::string line; pipes.read(&line) && line != "quit";)
    pipes.answer(measure(library, folder, rank, ranks, line));
}

}  // namespace compare
