// Counts above 2^31 and buffers above 4 GiB. Inputs are one small file mapped again and again, so
// only outputs take memory; skipped, with the reason, where the machine has not got it.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/fd.h"
#include "tests/support/ranks.h"

namespace rondo::test {
namespace {

constexpr std::size_t kManyElements = (std::size_t{1} << 31) + 3;
constexpr std::size_t kManyBytes = (std::size_t{1} << 32) + 5;
constexpr std::size_t kLargest = 2 * kManyElements;
// A prime number of pages: an offset that lost its upper half finds other bytes.
constexpr std::size_t kTile = std::size_t{12289} << 12;

std::size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (std::size_t kilobytes; file >> name >> kilobytes >> unit;)
    if (name == "MemAvailable:") return kilobytes << 10;
  return 0;
}

// The pattern that rank `rank` sends, one period of it.
std::vector<std::uint8_t> tile_of(int rank) {
  std::vector<std::uint8_t> tile(kTile);
  std::uint64_t word = 1 + static_cast<std::uint64_t>(rank);
  for (std::size_t i = 0; i < kTile; i += sizeof word) {
    word = word * 6364136223846793005u + 1442695040888963407u;
    const std::uint64_t mixed = word ^ (word >> 29);
    std::memcpy(&tile[i], &mixed, sizeof mixed);
  }
  return tile;
}

// Reserved address space; pages come where something is written or mapped.
class Region {
 public:
  explicit Region(std::size_t bytes) : size_((bytes / kTile + 1) * kTile) {
    void* at = mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = at == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(at);
    if (data_ != nullptr) madvise(data_, size_, MADV_HUGEPAGE);
  }
  ~Region() {
    if (data_ != nullptr) munmap(data_, size_);
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  std::uint8_t* data() const { return data_; }

  // The tile again and again, to be read.
  bool fill_with(const std::vector<std::uint8_t>& tile) {
    const Fd file(memfd_create("rondo-test-tile", MFD_CLOEXEC));
    if (!file || data_ == nullptr ||
        write(file.get(), tile.data(), kTile) != static_cast<ssize_t>(kTile))
      return false;
    for (std::size_t at = 0; at < size_; at += kTile)
      if (mmap(data_ + at, kTile, PROT_READ, MAP_SHARED | MAP_FIXED, file.get(), 0) == MAP_FAILED)
        return false;
    return true;
  }

 private:
  std::size_t size_;
  std::uint8_t* data_ = nullptr;
};

// Byte i of `got` is byte (shift + i) of the endless tile. The first offset that is not, or -1.
std::ptrdiff_t first_wrong(const std::uint8_t* got, std::size_t bytes,
                           const std::vector<std::uint8_t>& tile, std::size_t shift = 0) {
  for (std::size_t i = 0; i < bytes;) {
    const std::size_t in_tile = (shift + i) % kTile;
    const std::size_t run = std::min(kTile - in_tile, bytes - i);
    if (std::memcmp(got + i, &tile[in_tile], run) != 0) {
      const auto end = std::mismatch(got + i, got + i + run, tile.begin() + in_tile);
      return end.first - got;
    }
    i += run;
  }
  return -1;
}

class Large : public testing::Test {
 protected:
  void SetUp() override {
    constexpr std::size_t kNeeded = 2 * kLargest + (std::size_t{2} << 30);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers keep shadow memory for every byte";
#endif
    if (available_memory() < kNeeded)
      GTEST_SKIP() << "needs " << (kNeeded >> 20) << " MiB of memory, "
                   << (available_memory() >> 20) << " MiB are available";
    for (int r : {0, 1}) {
      tiles[r] = tile_of(r);
      inputs[r] = std::make_unique<Region>(kLargest);
      outputs[r] = std::make_unique<Region>(kLargest);
      ASSERT_TRUE(inputs[r]->fill_with(tiles[r])) << "cannot map the inputs";
      ASSERT_NE(outputs[r]->data(), nullptr);
    }
    sums.resize(kTile);
    for (std::size_t i = 0; i < kTile; ++i)
      sums[i] = static_cast<std::uint8_t>(tiles[0][i] + tiles[1][i]);
  }

  void run(const Communicators& comms, Collective collective, std::size_t count) {
    run_ranks(comms, [&](Communicator& comm) {
      Call call;
      call.record = {count, collective, DataType::kUint8, RedOp::kSum, 0, -1};
      call.send = inputs[comm.rank()]->data();
      call.receive = outputs[comm.rank()]->data();
      const Done done = comm.run({&call, 1});
      ASSERT_TRUE(done.ok()) << done.error().text;
    });
  }
  const std::uint8_t* output(int rank) const { return outputs[rank]->data(); }

  std::vector<std::uint8_t> tiles[2], sums;
  std::unique_ptr<Region> inputs[2], outputs[2];
};

TEST_F(Large, CountsAbove2To31AndBuffersAbove4GiB) {
  const Communicators comms = make_communicators(2);
  run(comms, Collective::kAllReduce, kManyElements);
  for (int r : {0, 1}) EXPECT_EQ(first_wrong(output(r), kManyElements, sums), -1);

  run(comms, Collective::kReduceScatter, kManyElements);
  for (int r : {0, 1})
    EXPECT_EQ(first_wrong(output(r), kManyElements, sums, r * kManyElements), -1);

  run(comms, Collective::kAllGather, kManyElements);
  for (int r : {0, 1})
    for (int from : {0, 1})
      EXPECT_EQ(first_wrong(output(r) + from * kManyElements, kManyElements, tiles[from]), -1);

  // Messages, in slots.
  run_ranks(comms, [&](Communicator& comm) {
    Call call;
    const bool sends = comm.rank() == 0;
    call.record = {
        kManyBytes, sends ? Collective::kSend : Collective::kRecv, DataType::kInt8, RedOp::kSum, 0,
        -1};
    call.peer = 1 - comm.rank();
    call.send = sends ? inputs[1]->data() : nullptr;
    call.receive = sends ? nullptr : outputs[1]->data();
    const Done done = comm.run({&call, 1});
    ASSERT_TRUE(done.ok()) << done.error().text;
  });
  EXPECT_EQ(first_wrong(output(1), kManyBytes, tiles[1]), -1);
}

TEST_F(Large, AlongConnections) {
  setenv("NCCL_ALGO", "ring", 1);
  const Communicators comms = make_communicators(2);
  unsetenv("NCCL_ALGO");
  run(comms, Collective::kAllReduce, kManyElements);
  for (int r : {0, 1}) EXPECT_EQ(first_wrong(output(r), kManyElements, sums), -1);
}

}  // namespace
}  // namespace rondo::test
