// SPDX-License-Identifier: Apache-2.0
// Counts above 2^31 and buffers above 4 GiB, on little memory. An input is one small file mapped
// repeatedly. An output is mapped the same way, with private memory only at its ends and around
// 2^31 and 2^32.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/fd.h"
#include "tests/support/engine_rank.h"

namespace rondo::test {
namespace {

constexpr std::size_t kMany = (std::size_t{1} << 31) + 3;
constexpr std::size_t kManyPages = (std::size_t{1} << 31) + 4096;
constexpr std::size_t kManyBytes = (std::size_t{1} << 32) + 5;
constexpr std::size_t kLargest = 2 * kManyPages;
constexpr std::size_t kWindow = std::size_t{1} << 20;
// A prime number of pages, so that an offset without its upper half finds other bytes.
constexpr std::size_t kTile = std::size_t{12289} << 12;

using Tile = std::vector<std::uint8_t>;

// One period of the pattern that rank `rank` sends.
Tile tile_of(int rank) {
  Tile tile(kTile);
  std::uint64_t word = 1 + static_cast<std::uint64_t>(rank);
  for (std::size_t i = 0; i < kTile; i += sizeof word) {
    word = word * 6364136223846793005u + 1442695040888963407u;
    const std::uint64_t mixed = word ^ (word >> 29);
    std::memcpy(&tile[i], &mixed, sizeof mixed);
  }
  return tile;
}

// The first offset at which byte i of `got` differs from byte (shift + i) of the repeated tile, or
// -1.
std::ptrdiff_t first_wrong(const std::uint8_t* got, std::size_t bytes, const Tile& tile,
                           std::size_t shift = 0) {
  for (std::size_t i = 0; i < bytes;) {
    const std::size_t in_tile = (shift + i) % kTile;
    const std::size_t run = std::min(kTile - in_tile, bytes - i);
    if (std::memcmp(got + i, &tile[in_tile], run) != 0)
      return std::mismatch(got + i, got + i + run, tile.begin() + in_tile).first - got;
    i += run;
  }
  return -1;
}

// Address space that maps one file's pages repeatedly.
class Repeated {
 public:
  explicit Repeated(std::size_t bytes) : bytes_((bytes / kTile + 1) * kTile) {
    const Fd file(memfd_create("rondo-test-tile", MFD_CLOEXEC));
    void* at = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!file || at == MAP_FAILED || ftruncate(file.get(), kTile) != 0) std::abort();
    data_ = static_cast<std::uint8_t*>(at);
    for (std::size_t i = 0; i < bytes_; i += kTile)
      map(i, kTile, MAP_SHARED | MAP_FIXED, file.get());
  }
  ~Repeated() { munmap(data_, bytes_); }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;

  std::uint8_t* data() const { return data_; }
  void map(std::size_t at, std::size_t bytes, int flags, int file) {
    if (mmap(data_ + at, bytes, PROT_READ | PROT_WRITE, flags, file, 0) == MAP_FAILED) std::abort();
  }

 private:
  std::size_t bytes_;
  std::uint8_t* data_;
};

class Output {
 public:
  explicit Output(std::size_t bytes) : memory_(bytes), bytes_(bytes) {
    for (const std::size_t border : {std::size_t{0}, std::size_t{1} << 31, std::size_t{1} << 32}) {
      if (border + kWindow < bytes) own(border - std::min(border, kWindow), border + kWindow);
    }
    own(((bytes - kWindow) >> 12) << 12, bytes);
  }
  std::uint8_t* data() const { return memory_.data(); }

  // Expects bytes begin to end to repeat the tile from `shift` on; checks the windows only.
  void expect_in_windows(const Tile& tile, std::size_t shift, std::size_t begin,
                         std::size_t end) const {
    for (const auto& [first, last] : windows_) {
      const std::size_t from = std::max(first, begin), to = std::min(last, end);
      if (from >= to) continue;
      EXPECT_EQ(first_wrong(data() + from, to - from, tile, shift + from - begin), -1)
          << "in the window at " << from;
    }
  }
  // Expects all bytes to do so: the repeated pages hold one tile.
  void expect(const Tile& tile, std::size_t shift = 0) const {
    expect_in_windows(tile, shift, 0, bytes_);
    const std::size_t last = (bytes_ - kWindow) / kTile * kTile - kTile;
    EXPECT_EQ(first_wrong(data() + last, kTile, tile, shift), -1) << "in the pages that repeat";
  }

 private:
  void own(std::size_t begin, std::size_t end) {
    memory_.map(begin, end - begin, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
    windows_.emplace_back(begin, end);
  }
  Repeated memory_;
  std::size_t bytes_;
  std::vector<std::pair<std::size_t, std::size_t>> windows_;
};

class Large : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers keep shadow memory for every byte";
#endif
    for (int r : {0, 1}) {
      tiles[r] = tile_of(r);
      inputs[r] = std::make_unique<Repeated>(kLargest);
      std::memcpy(inputs[r]->data(), tiles[r].data(), kTile);
    }
    sums.resize(kTile);
    for (std::size_t i = 0; i < kTile; ++i)
      sums[i] = static_cast<std::uint8_t>(tiles[0][i] + tiles[1][i]);
  }

  // Runs with outputs of that many bytes on both ranks.
  void run(const Communicators& comms, Collective collective, std::size_t count,
           std::size_t bytes) {
    for (auto& output : outputs) output = std::make_unique<Output>(bytes);
    run_ranks(comms, [&](Communicator& comm) {
      Call call;
      call.record = {count, collective, DataType::kUint8, RedOp::kSum, 0, -1};
      call.send = inputs[comm.rank()]->data();
      call.receive = outputs[comm.rank()]->data();
      const Status done = comm.run({&call, 1});
      ASSERT_TRUE(done.ok()) << done.error().text;
    });
  }

  Tile tiles[2], sums;
  std::unique_ptr<Repeated> inputs[2];
  std::unique_ptr<Output> outputs[2];
};

TEST_F(Large, AllReduceOfMoreThan2To31Elements) {
  run(make_communicators(2), Collective::kAllReduce, kMany, kMany);
  for (const auto& output : outputs) output->expect(sums);
}

TEST_F(Large, AllReduceAlongARing) {
  setenv("NCCL_ALGO", "ring", 1);
  const Communicators comms = make_communicators(2);
  unsetenv("NCCL_ALGO");
  run(comms, Collective::kAllReduce, kMany, kMany);
  for (const auto& output : outputs) output->expect(sums);
}

// Both halves share the repeated pages; each half has windows at both ends.
TEST_F(Large, AllGatherOfOutputsAbove4GiB) {
  run(make_communicators(2), Collective::kAllGather, kManyPages, kLargest);
  for (const auto& output : outputs) {
    output->expect_in_windows(tiles[0], 0, 0, kManyPages);
    output->expect_in_windows(tiles[1], 0, kManyPages, kLargest);
  }
}

TEST_F(Large, MessageAbove4GiB) {
  const Communicators comms = make_communicators(2);
  Output received(kManyBytes);
  run_ranks(comms, [&](Communicator& comm) {
    Call call;
    const bool sends = comm.rank() == 0;
    call.record = {
        kManyBytes, sends ? Collective::kSend : Collective::kRecv, DataType::kInt8, RedOp::kSum, 0,
        -1};
    call.peer = 1 - comm.rank();
    call.send = sends ? inputs[1]->data() : nullptr;
    call.receive = sends ? nullptr : received.data();
    const Status done = comm.run({&call, 1});
    ASSERT_TRUE(done.ok()) << done.error().text;
  });
  received.expect(tiles[1]);
}

}  // namespace
}  // namespace rondo::test
