// SPDX-License-Identifier: Apache-2.0
#include "bench/bits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include "api/rondo.h"
#include "base/json.h"
#include "base/thread.h"
#include "bench/element_types.h"
#include "bench/standard_output.h"

namespace rondo::bench {
namespace {

constexpr int kLeaves = 8, kColumns = 8;
constexpr std::size_t kCounts[] = {1, 257, 4096, 65536, 1048576};
constexpr std::size_t kMiddle = 4096, kScattered = 65536;
constexpr int kRepetitions = 20;
constexpr const char* kForced[] = {"oneshot", "twoshot", "ring", "tree"};

constexpr std::pair<const char*, const char*> kQuestions[] = {
    {"ranks", "number of ranks"},
    {"position", "position in the buffer"},
    {"length", "length of the message"},
    {"alignment", "alignment of the buffer"},
    {"in place", "in place or not"},
    {"algorithm", "algorithm (NCCL_ALGO)"},
    {"scattered", "collective: reduce_scatter"},
    {"owner", "rank that owns the part (reduce_scatter)"},
    {"repetition", "repetition"},
};

Status check(ncclResult_t result, ncclComm_t comm) {
  if (result == ncclSuccess) return ok_status();
  return fail(static_cast<StatusCode>(result), "{}", ncclGetLastError(comm));
}

// Summands whose sum depends on the order.
std::vector<std::uint64_t> make_values(const TypeInfo& type) {
  std::mt19937 random(1);
  std::vector<std::uint64_t> bits;
  for (int i = 0; i < kLeaves * kColumns; ++i) {
    const double unit = static_cast<double>(random()) * 0x1p-31 - 1;
    bits.push_back(encode(type, std::ldexp(unit, static_cast<int>(random() % 11) - 5)));
  }
  return bits;
}

// One rank of a job, which keeps what it observes.
class Observer {
 public:
  Observer(const TypeInfo& type, int ranks, int rank, ncclComm_t comm, ncclComm_t self)
      : type_(type), ranks_(ranks), rank_(rank), comm_(comm), self_(self) {}

  // Everything that one job can observe; ordered: along the tree of leaves.
  Result<Observed> observe(bool ordered) {
    use(ordered);
    Observed found;
    RONDO_TRY(const std::string first, reduce(kColumns));
    found["ranks"].insert(first);
    for (int i = 0; i < kRepetitions; ++i) {
      RONDO_TRY(std::string again, reduce(kColumns));
      found["repetition"].insert(std::move(again));
    }
    const std::size_t row = kColumns * type_.size;
    for (const std::size_t count : kCounts) {
      RONDO_TRY(const std::string sum, reduce(count));
      found["length"].insert(sum.substr(0, type_.size));
      for (std::size_t at = 0; at + row <= sum.size(); at += row)
        found["position"].insert(sum.substr(at, row));
    }
    RONDO_TRY(const std::string middle, reduce(kMiddle));
    RONDO_TRY(std::string shifted, reduce(kMiddle, 1));
    found["alignment"] = {middle, std::move(shifted)};
    RONDO_TRY(std::string in_place, reduce(kMiddle, 0, true));
    found["in place"] = {middle, std::move(in_place)};
    RONDO_TRY(const std::string whole, reduce(kScattered));
    RONDO_TRY(std::string parts, scatter(kScattered));
    const std::size_t part = parts.size() / static_cast<std::size_t>(ranks_);
    for (std::size_t at = 0; at < parts.size(); at += part)
      found["owner"].insert(parts.substr(at, row));
    found["scattered"] = {whole, std::move(parts)};
    return found;
  }

  void use(bool ordered) { ordered_ = ordered; }

  // count elements: the same few columns all along.
  Result<std::string> reduce(std::size_t count, std::size_t shift = 0, bool in_place = false) {
    RONDO_CHECK_OK(fill(count, shift));
    std::string result((count + shift) * type_.size, '\0');
    char* const to = in_place ? leaves_.data() : result.data() + shift * type_.size;
    char* const from = leaves_.data() + shift * type_.size;
    if (ordered_) {
      RONDO_CHECK_OK(
          check(rondoAllReduceOrdered(from, to, count, type_.type, ncclSum, kLeaves, rank_ * own(),
                                      own(), rondoRoundNode, comm_, nullptr),
                comm_));
    } else {
      RONDO_CHECK_OK(sum_own(from, count));
      RONDO_CHECK_OK(
          check(ncclAllReduce(from, to, count, type_.type, ncclSum, comm_, nullptr), comm_));
    }
    return std::string(to, count * type_.size);
  }

 private:
  int own() const { return kLeaves / ranks_; }

  Status fill(std::size_t count, std::size_t shift) {
    static const std::vector<std::uint64_t> values = make_values(type_);
    leaves_.assign((static_cast<std::size_t>(own()) * count + shift) * type_.size, '\0');
    char* to = leaves_.data() + shift * type_.size;
    for (int leaf = rank_ * own(); leaf < (rank_ + 1) * own(); ++leaf)
      for (std::size_t i = 0; i < count; ++i, to += type_.size)
        std::memcpy(to, &values[static_cast<std::size_t>(leaf) * kColumns + i % kColumns],
                    type_.size);
    return ok_status();
  }

  // The rank's own leaves, in pairs, into the first one.
  Status sum_own(void* leaves, std::size_t count) {
    return check(rondoAllReduceOrdered(leaves, leaves, count, type_.type, ncclSum, own(), 0, own(),
                                       rondoRoundNode, self_, nullptr),
                 self_);
  }

  // The parts of all ranks, one after the other.
  Result<std::string> scatter(std::size_t count) {
    RONDO_CHECK_OK(fill(count, 0));
    const std::size_t part = count / static_cast<std::size_t>(ranks_);
    std::string mine(part * type_.size, '\0'), all(count * type_.size, '\0');
    if (ordered_) {
      RONDO_CHECK_OK(check(
          rondoReduceScatterOrdered(leaves_.data(), mine.data(), part, type_.type, ncclSum, kLeaves,
                                    rank_ * own(), own(), rondoRoundNode, comm_, nullptr),
          comm_));
    } else {
      RONDO_CHECK_OK(sum_own(leaves_.data(), count));
      RONDO_CHECK_OK(check(
          ncclReduceScatter(leaves_.data(), mine.data(), part, type_.type, ncclSum, comm_, nullptr),
          comm_));
    }
    RONDO_CHECK_OK(check(
        ncclAllGather(mine.data(), all.data(), mine.size(), ncclUint8, comm_, nullptr), comm_));
    return all;
  }

  const TypeInfo& type_;
  const int ranks_, rank_;
  const ncclComm_t comm_, self_;
  bool ordered_ = false;
  std::string leaves_;
};

// Runs the body on `ranks` threads, each a rank. Rank 0's error counts first.
Status with_ranks(const TypeInfo& type, int ranks,
                  const std::function<Status(Observer&, int rank)>& body) {
  ncclUniqueId id;
  RONDO_CHECK_OK(check(ncclGetUniqueId(&id), nullptr));
  const auto run_rank = [&](int rank) -> Status {
    ncclComm_t comm = nullptr, self = nullptr;
    ncclUniqueId own;
    RONDO_CHECK_OK(check(ncclCommInitRank(&comm, ranks, id, rank), nullptr));
    Status result = check(ncclGetUniqueId(&own), nullptr);
    if (result.ok()) result = check(ncclCommInitRank(&self, 1, own, 0), nullptr);
    Observer observer(type, ranks, rank, comm, self);
    if (result.ok()) result = body(observer, rank);
    if (self != nullptr) ncclCommDestroy(self);
    result.ok() ? ncclCommDestroy(comm) : ncclCommAbort(comm);
    return result;
  };
  std::vector<Status> results(static_cast<std::size_t>(ranks));
  std::vector<Thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    Status& result = results[static_cast<std::size_t>(rank)];
    auto started = Thread::start(
        "a rank", [&result, run_rank, rank] { result = run_rank(rank); },
        [&result](const Error& error) { result = copy_of(error); });
    if (started.ok())
      threads.push_back(std::move(*started));
    else
      result = started.error();
  }
  for (Thread& thread : threads) thread.join();
  for (const Status& result : results) RONDO_CHECK_OK(result);
  return ok_status();
}

// NCCL_ALGO of the communicators that are made meanwhile.
class WithAlgorithm {
 public:
  explicit WithAlgorithm(const char* name) {
    if (const char* before = std::getenv("NCCL_ALGO")) before_ = before;
    ::setenv("NCCL_ALGO", name, 1);
  }
  ~WithAlgorithm() {
    if (before_)
      ::setenv("NCCL_ALGO", before_->c_str(), 1);
    else
      ::unsetenv("NCCL_ALGO");
  }
  WithAlgorithm(const WithAlgorithm&) = delete;
  WithAlgorithm& operator=(const WithAlgorithm&) = delete;

 private:
  std::optional<std::string> before_;
};

void observe_algorithms(const TypeInfo& type, int ranks, Observed* plain, Observed* ordered) {
  for (const char* const algorithm : kForced) {
    const WithAlgorithm chosen(algorithm);
    std::string sums[2];
    const Status ran = with_ranks(type, ranks, [&](Observer& observer, int rank) -> Status {
      for (const bool along_tree : {false, true}) {
        observer.use(along_tree);
        RONDO_TRY(std::string mine, observer.reduce(kMiddle));
        if (rank == 0) sums[along_tree] = std::move(mine);
      }
      return ok_status();
    });
    if (!ran.ok()) continue;  // it does not run here
    (*plain)["algorithm"].insert(std::move(sums[0]));
    (*ordered)["algorithm"].insert(std::move(sums[1]));
  }
}

std::size_t results_of(const std::map<int, Observed>& found, const char* question) {
  std::set<std::string> results;
  const auto add = [&](const Observed& observed) {
    const auto at = observed.find(question);
    if (at != observed.end()) results.insert(at->second.begin(), at->second.end());
  };
  if (std::string_view(question) == "ranks")
    for (const auto& [ranks, observed] : found) add(observed);
  else
    add(found.rbegin()->second);
  return results.size();
}

std::string answer(std::size_t results) {
  if (results == 0) return "-";
  return results == 1 ? "no" : fmt::format("yes, {} results", results);
}

}  // namespace

Result<BitsFound> observe_bits(ncclDataType_t type, int max_ranks) {
  BitsFound found;
  for (int ranks = 2; ranks <= max_ranks; ranks *= 2) {
    RONDO_CHECK_OK(with_ranks(info(type), ranks, [&](Observer& observer, int rank) -> Status {
      RONDO_TRY(Observed plain, observer.observe(false));
      RONDO_TRY(Observed ordered, observer.observe(true));
      if (rank != 0) return ok_status();
      found.plain[ranks] = std::move(plain);
      found.ordered[ranks] = std::move(ordered);
      return ok_status();
    }));
  }
  observe_algorithms(info(type), max_ranks, &found.plain[max_ranks], &found.ordered[max_ranks]);
  return found;
}

std::vector<BitsRow> rows_of(const BitsFound& found) {
  std::vector<BitsRow> rows;
  for (const auto& [question, what] : kQuestions)
    rows.push_back({what, results_of(found.plain, question), results_of(found.ordered, question)});
  return rows;
}

std::string bits_table(const std::vector<BitsRow>& rows, ncclDataType_t type, int max_ranks) {
  std::string text = fmt::format(
      "Sums of {} on host memory, up to {} ranks. Do the bits change with it?\n\n"
      "| what changes | all_reduce | ordered |\n|---|---|---|\n",
      info(type).name, max_ranks);
  for (const BitsRow& row : rows)
    text += fmt::format("| {} | {} | {} |\n", row.what, answer(row.plain), answer(row.ordered));
  return text;
}

std::string bits_json(const std::vector<BitsRow>& rows, ncclDataType_t type, int max_ranks) {
  Json whole{{"type", std::string(info(type).name)}, {"ranks", max_ranks}};
  whole["changes"] = Json::array();
  for (const BitsRow& row : rows)
    whole["changes"].push_back(
        Json{{"what", row.what}, {"results", row.plain}, {"ordered_results", row.ordered}});
  return whole.text(2) + "\n";
}

int report_bits(const Options& options) {
  const ncclDataType_t type = options.types.front();
  const int ranks = options.ranks == 0 ? kLeaves : options.ranks;
  const auto found = observe_bits(type, ranks);
  if (!found.ok()) {
    print_error(options.command, found.error().text);
    return kLibraryError;
  }
  const std::vector<BitsRow> rows = rows_of(*found);
  if (options.json != "/dev/stdout") fmt::print("{}", bits_table(rows, type, ranks));
  if (options.json.empty()) return kOk;
  const Status written = write_result(options.json, bits_json(rows, type, ranks));
  if (written.ok()) return kOk;
  print_error(options.command, written.error().text);
  return kInvalidUse;
}

}  // namespace rondo::bench
