// SPDX-License-Identifier: Apache-2.0
// A long-lived process of the soak test. It reads episodes from standard input, runs them with one
// thread per rank, and prints how each of its ranks ended.
//
//   id                                              -> id HEX
//   episode SEED SIZE FIRST COUNT ABORTER HEX       -> rank R ok | rank R error CODE TEXT; done
//
// An episode makes a communicator of SIZE ranks, COUNT of them in this process, from FIRST on. It
// makes calls that depend only on SEED (so all processes make the same), checks every element, and
// destroys the communicator. Rank ABORTER (-1: none) aborts in the middle. A rank whose call fails
// also aborts.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "nccl.h"

namespace {

std::string to_hex(const ncclUniqueId& id) {
  std::string text;
  for (const char byte : id.internal) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

ncclUniqueId from_hex(const std::string& text) {
  ncclUniqueId id{};
  for (std::size_t i = 0; i < sizeof(id.internal) && 2 * i + 1 < text.size(); ++i)
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

struct Failure {
  ncclResult_t code;
  std::string text;
};

void require(ncclResult_t result) {
  if (result != ncclSuccess) throw Failure{result, ncclGetLastError(nullptr)};
}

void expect(bool holds, const char* what) {
  if (!holds) throw Failure{ncclSuccess, std::string("wrong data: ") + what};
}

// Element i of a rank's input.
std::int32_t given(int rank, std::size_t i) {
  return rank * 1000 + static_cast<std::int32_t>(i % 977);
}

std::int32_t sum_of(int ranks, std::size_t i) {
  return 1000 * (ranks * (ranks - 1) / 2) + ranks * static_cast<std::int32_t>(i % 977);
}

class Caller {
 public:
  Caller(ncclComm_t comm, int rank, int size) : comm_(comm), rank_(rank), size_(size) {}

  void run(int kind, std::size_t count, int root) {
    fill(count);
    switch (kind) {
      case 0:
        return all_reduce(count);
      case 1:
        return all_gather(count);
      case 2:
        return reduce_scatter(count);
      case 3:
        return broadcast(count, root);
      default:
        return pass_on(count);
    }
  }

 private:
  void fill(std::size_t count) {
    mine_.resize(count);
    for (std::size_t i = 0; i < count; ++i) mine_[i] = given(rank_, i);
  }

  void all_reduce(std::size_t count) {
    all_.assign(count, -1);
    require(ncclAllReduce(mine_.data(), all_.data(), count, ncclInt32, ncclSum, comm_, nullptr));
    for (std::size_t i = 0; i < count; ++i) expect(all_[i] == sum_of(size_, i), "all-reduce");
  }

  void all_gather(std::size_t count) {
    all_.assign(count * size_, -1);
    require(ncclAllGather(mine_.data(), all_.data(), count, ncclInt32, comm_, nullptr));
    for (std::size_t i = 0; i < all_.size(); ++i)
      expect(all_[i] == given(static_cast<int>(i / count), i % count), "all-gather");
  }

  void reduce_scatter(std::size_t count) {
    fill(count * size_);
    all_.assign(count, -1);
    require(
        ncclReduceScatter(mine_.data(), all_.data(), count, ncclInt32, ncclSum, comm_, nullptr));
    for (std::size_t i = 0; i < count; ++i)
      expect(all_[i] == sum_of(size_, rank_ * count + i), "reduce-scatter");
  }

  void broadcast(std::size_t count, int root) {
    require(ncclBroadcast(mine_.data(), mine_.data(), count, ncclInt32, root, comm_, nullptr));
    for (std::size_t i = 0; i < count; ++i) expect(mine_[i] == given(root, i), "broadcast");
  }

  void pass_on(std::size_t count) {
    const int from = (rank_ + size_ - 1) % size_;
    all_.assign(count, -1);
    require(ncclGroupStart());
    require(ncclSend(mine_.data(), count, ncclInt32, (rank_ + 1) % size_, comm_, nullptr));
    require(ncclRecv(all_.data(), count, ncclInt32, from, comm_, nullptr));
    require(ncclGroupEnd());
    for (std::size_t i = 0; i < count; ++i) expect(all_[i] == given(from, i), "send and recv");
  }

  ncclComm_t comm_;
  int rank_, size_;
  std::vector<std::int32_t> mine_, all_;
};

struct Episode {
  unsigned seed;
  int size, first, count, aborter;
  ncclUniqueId id;
};

// A child of the ranks of one color; a member that fails aborts it, so that no rank waits for it.
void run_child(ncclComm_t comm, int rank, int size, int colors, std::size_t count) {
  const int color = rank % colors;
  ncclComm_t child;
  require(ncclCommSplit(comm, color, rank, &child, nullptr));
  try {
    Caller(child, rank / colors, (size - color + colors - 1) / colors).run(0, count, 0);
  } catch (...) {
    ncclCommAbort(child);
    throw;
  }
  require(ncclCommDestroy(child));
}

void run_rank(const Episode& episode, int rank, std::string& outcome) {
  ncclComm_t comm = nullptr;
  try {
    require(ncclCommInitRank(&comm, episode.size, episode.id, rank));
    std::mt19937 dice(episode.seed);
    const int calls = 3 + static_cast<int>(dice() % 28);
    const int abort_at = static_cast<int>(dice() % calls);
    Caller player(comm, rank, episode.size);
    for (int call = 0; call < calls; ++call) {
      const int kind = static_cast<int>(dice() % 6);
      const std::size_t count = 1 + (dice() % 3 == 0 ? dice() % 200000 : dice() % 500);
      const int root = static_cast<int>(dice() % episode.size);
      const int colors = 1 + static_cast<int>(dice() % 3);
      if (rank == episode.aborter && call == abort_at) {
        ncclCommAbort(comm);
        outcome = "ok";
        return;
      }
      if (kind < 5) {
        player.run(kind, count, root);
      } else {
        run_child(comm, rank, episode.size, colors, count);
      }
    }
    require(ncclCommDestroy(comm));
    outcome = "ok";
  } catch (const Failure& failure) {
    outcome = "error " + std::to_string(failure.code) + " " + failure.text;
    for (char& c : outcome)
      if (c == '\n') c = ' ';
    if (comm != nullptr) ncclCommAbort(comm);
  }
}

void run(const Episode& episode) {
  std::vector<std::string> outcomes(episode.count);
  std::vector<std::thread> threads;
  for (int i = 0; i < episode.count; ++i)
    threads.emplace_back([&, i] { run_rank(episode, episode.first + i, outcomes[i]); });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < episode.count; ++i)
    std::cout << "rank " << episode.first + i << " " << outcomes[i] << "\n";
  std::cout << "done" << std::endl;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string what, hex;
    words >> what;
    if (what == "id") {
      ncclUniqueId id;
      const ncclResult_t result = ncclGetUniqueId(&id);
      std::cout << (result == ncclSuccess ? "id " + to_hex(id)
                                          : std::string("error ") + ncclGetLastError(nullptr))
                << std::endl;
    } else if (what == "episode") {
      Episode episode;
      words >> episode.seed >> episode.size >> episode.first >> episode.count >> episode.aborter >>
          hex;
      episode.id = from_hex(hex);
      run(episode);
    }
  }
}
