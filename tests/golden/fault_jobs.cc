#include "tests/golden/fault_jobs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <regex>
#include <thread>

#include "tests/golden/fault_kinds.h"
#include "tests/golden/golden.h"
#include "tests/support/processes.h"

namespace rondo::test {
namespace {

constexpr double kMostSeconds = 60;
constexpr double kLongSeconds = 40;  // RONDO_TIMEOUT, where it must not be what ends a call
constexpr int kRoundsToWrite = 6;    // to meet what chance decides
// What only a starved machine says is said once; what the program says now, every time.
constexpr int kAttempts = 3;

struct Outcome {
  std::atomic<bool> told;
  ncclResult_t result;
  char text[12'000];
};

// What the ranks of a job and the test share.
struct Board {
  std::atomic<int> ready;  // ranks that came to a meeting: before the common call, and after it
  Outcome of[kFaultRanks];
};

bool wait_until(const std::function<bool()>& holds) {
  for (double waited = 0; !holds(); waited += 0.001) {
    if (waited > kMostSeconds) return false;
    nap(0.001);
  }
  return true;
}

bool all_told(const Board& board, const FaultKind& kind) {
  for (int rank = 0; rank < kFaultRanks; ++rank)
    if (!board.of[rank].told.load() && !(kind.last_leaves && rank == kFaultRanks - 1)) return false;
  return true;
}

// As the golden file has it. Ranks that do the same are one: chance decides which of them tells.
// What is known of ranks of other hosts is what they told last.
std::string block_of(const Outcome& outcome, const FaultKind& kind, bool one_host) {
  std::string text =
      fmt::format("{}\n{}", ncclGetErrorString(outcome.result), masked(outcome.text));
  text = std::regex_replace(text, std::regex(R"(\b(step|channel) \d+)"), "$1 <n>");
  if (kind.others_alike) text = std::regex_replace(text, std::regex(R"(\brank [01]\b)"), "rank A");
  // By what a connection's end is noticed first: a reset, its end, a refused attempt.
  text = std::regex_replace(text, std::regex(R"((waits for it): [^\n]*)"), "$1: <network error>");
  if (!one_host)
    text = std::regex_replace(text, std::regex(R"((\n  rank \w+ \(pid <pid> on <host>\)): [^\n]*)"),
                              "$1: <what is known>");
  while (text.back() == '\n') text.pop_back();
  return text;
}

class Job {
 public:
  Job(const FaultPlacement& placement, const FaultKind& kind) : placement_(placement), kind_(kind) {
    board_ = new (mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)) Board{};
  }
  ~Job() { munmap(board_, sizeof(Board)); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // The faults that ranks were told of.
  std::vector<std::string> outcomes() {
    RankProcesses::Options options;
    options.create = false;
    options.environment = placement_.environment;
    options.environment.emplace_back(
        "RONDO_TIMEOUT",
        std::to_string(kind_.ends_by_deadline ? placement_.seconds : kLongSeconds));
    options.hosts = placement_.hosts;
    const int processes = static_cast<int>(placement_.processes.size());
    RankProcesses ranks(processes, options, [&](RankSeat& seat) { run_process(seat); });
    if (kind_.kills_last) {
      wait_until([&] { return board_->ready.load() == 2 * kFaultRanks; });
      nap(0.3);  // the others are in their calls
      ranks.send(processes - 1, SIGKILL);
    }
    if (!wait_until([&] { return all_told(*board_, kind_); })) ADD_FAILURE() << "no outcome";
    // Chance decides whether a rank is told in this call or would be in its next one.
    std::vector<std::string> blocks;
    for (const Outcome& one : board_->of)
      if (one.told.load() && one.result != ncclSuccess)
        blocks.push_back(block_of(one, kind_, placement_.hosts.empty()));
    EXPECT_FALSE(blocks.empty()) << kind_.name << ": nobody was told";
    return blocks;
  }

 private:
  void run_process(RankSeat& seat) {
    int first = 0;
    for (int p = 0; p < seat.rank; ++p) first += placement_.processes[p];
    ncclUniqueId id;
    std::memcpy(&id, &seat.board.id, sizeof(id));
    std::vector<std::thread> threads;
    for (int r = 0; r < placement_.processes[seat.rank]; ++r)
      threads.emplace_back([&, rank = first + r] { run_rank(rank, id); });
    for (std::thread& thread : threads) thread.join();
  }

  // All ranks are here.
  void meet() {
    const int round = board_->ready.fetch_add(1) / kFaultRanks + 1;
    wait_until([&] { return board_->ready.load() >= round * kFaultRanks; });
  }

  void run_rank(int rank, const ncclUniqueId& id) {
    FaultRank self{rank, placement_.memory(rank),
                   [&](int other) { wait_until([&] { return board_->of[other].told.load(); }); }};
    ncclResult_t result = ncclCommInitRank(&self.comm, kFaultRanks, id, rank);
    meet();  // none shall wait for long in this call
    if (result == ncclSuccess) result = self.sum(1000);
    meet();
    if (result == ncclSuccess) result = kind_.body(self);
    Outcome& outcome = board_->of[rank];
    outcome.result = result;
    std::strncpy(outcome.text, ncclGetLastError(self.comm), sizeof(outcome.text) - 1);
    outcome.told.store(true);
    // Whoever leaves now would be one more fault of the others.
    wait_until([&] { return all_told(*board_, kind_); });
    if (self.comm != nullptr) ncclCommAbort(self.comm);
  }

  const FaultPlacement& placement_;
  const FaultKind& kind_;
  Board* board_;
};

}  // namespace

void expect_golden_faults(const FaultPlacement& placement) {
  GoldenSets golden(fmt::format("faults_{}.txt", placement.name));
  for (const FaultKind& kind : fault_kinds()) {
    if ((kind.kills_last || kind.last_leaves) && placement.processes.back() != 1) continue;
    if (golden.writes()) {
      for (int round = 0; round < kRoundsToWrite; ++round)
        for (const std::string& block : Job(placement, kind).outcomes())
          golden.expect(kind.name, block);
      continue;
    }
    std::vector<std::string> blocks;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      blocks = Job(placement, kind).outcomes();
      const auto known = [&](const std::string& block) { return golden.knows(kind.name, block); };
      if (std::all_of(blocks.begin(), blocks.end(), known)) break;
    }
    for (const std::string& block : blocks) golden.expect(kind.name, block);
  }
}

}  // namespace rondo::test
