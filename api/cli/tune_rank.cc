#include "api/cli/tune_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "api/launch_env.h"
#include "api/nccl.h"
#include "base/output_file.h"
#include "bench/kinds.h"

namespace rondo::cli {
namespace {

constexpr int kBlocks = 9;
constexpr std::uint64_t kSizeFactor = 8;

class TuneRank {
 public:
  TuneRank(ncclComm_t comm, bench::Kind kind, int rank, int ranks)
      : comm_(comm), kind_(kind), rank_(rank), ranks_(ranks) {}

  // Microseconds a call, of the lower quartile of blocks: what others do on the machine only adds.
  double measure(const bench::Layout& layout, double seconds) {
    send_.assign(layout.send_count, 1.0f);
    receive_.assign(layout.recv_count, 0.0f);
    count_ = layout.count;
    int calls = 1;
    double each = agreed(block(calls));
    while (each * calls < seconds * 1e6 / kBlocks / 4 && calls < 1 << 16) {
      calls *= 4;
      each = agreed(block(calls));
    }
    std::vector<double> blocks;
    for (int i = 0; i < kBlocks; ++i) blocks.push_back(block(calls));
    std::sort(blocks.begin(), blocks.end());
    return blocks[kBlocks / 4];
  }
  bool failed() const { return failed_; }

 private:
  double block(int calls) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    for (int i = 0; i < calls && !failed_; ++i) failed_ = call() != ncclSuccess;
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / calls;
  }

  // All ranks go on alike: the sum of what each saw.
  double agreed(double mine) {
    auto value = static_cast<float>(mine);
    failed_ |=
        ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm_, nullptr) != ncclSuccess;
    return static_cast<double>(value) / ranks_;
  }

  ncclResult_t call() {
    switch (kind_) {
      case bench::Kind::kAllReduce:
        return ncclAllReduce(send_.data(), receive_.data(), count_, ncclFloat32, ncclSum, comm_,
                             nullptr);
      case bench::Kind::kReduce:
        return ncclReduce(send_.data(), receive_.data(), count_, ncclFloat32, ncclSum, 0, comm_,
                          nullptr);
      case bench::Kind::kAllGather:
        return ncclAllGather(send_.data(), receive_.data(), count_, ncclFloat32, comm_, nullptr);
      case bench::Kind::kReduceScatter:
        return ncclReduceScatter(send_.data(), receive_.data(), count_, ncclFloat32, ncclSum, comm_,
                                 nullptr);
      default:
        return ncclBcast(rank_ == 0 ? send_.data() : receive_.data(), count_, ncclFloat32, 0, comm_,
                         nullptr);
    }
  }

  ncclComm_t comm_;
  bench::Kind kind_;
  int rank_, ranks_;
  std::size_t count_ = 0;
  std::vector<float> send_, receive_;
  bool failed_ = false;
};

}  // namespace

int tune_rank(const std::string& collective, std::uint64_t most_bytes, double seconds,
              const std::string& file) {
  rondo_launch_t me;
  const auto kind = bench::kind_by_name(collective);
  if (!kind || rondo_launch_read(&me) < 0) return 1;
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  if (me.rank == 0 && ncclGetUniqueId(&id) != ncclSuccess) return 1;
  if (rondo_launch_broadcast(&me, &id, sizeof id, 60.0) != 0) return 1;
  if (ncclCommInitRank(&comm, me.size, id, me.rank) != ncclSuccess) return 1;
  TuneRank rank(comm, *kind, me.rank, me.size);
  std::string lines;
  for (std::uint64_t bytes = 4; bytes <= most_bytes; bytes *= kSizeFactor) {
    const bench::Layout layout = bench::layout_of({*kind, ncclFloat32, me.rank, me.size, 0}, bytes);
    if (layout.count == 0) continue;
    const double us = rank.measure(layout, seconds);
    lines += fmt::format("{} {} {:.4f}\n", layout.bytes, layout.count, us);
  }
  if (rank.failed()) {
    fmt::print(stderr, "rank {}: {}\n", me.rank, ncclGetLastError(comm));
    return 1;
  }
  ncclCommDestroy(comm);
  if (me.rank != 0) return 0;
  const Done written = write_output(file, lines);
  if (!written.ok()) fmt::print(stderr, "{}\n", written.error().text);
  return written.ok() ? 0 : 1;
}

}  // namespace rondo::cli
