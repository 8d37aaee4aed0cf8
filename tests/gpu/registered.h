// Memory that a rank registers with its communicator, and sums in it whose bits show whether they
// ran in place.
#pragma once

#include "tests/gpu/process_bodies.h"

namespace rondo::test {

// More than staging holds, and a prime number.
inline constexpr std::size_t kRegisteredCount = 262'147;
inline constexpr int kPatience = 300;  // max. calls until the in-place path must be in use

// Memory of the rank, slightly unaligned, registered until it is destroyed.
class Registered {
 public:
  explicit Registered(NcclRank& seat, std::size_t shift = 0, bool registered = true,
                      bool shareable = false)
      : seat_(seat), memory_(kRegisteredCount * sizeof(float), shift, shareable) {
    if (registered) enter();
  }
  ~Registered() { leave(); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  void enter() {
    EXPECT_EQ(ncclCommRegister(seat_.comm, memory_.base(), memory_.size(), &handle_), ncclSuccess)
        << ncclGetLastError(seat_.comm);
  }
  void leave() {
    if (handle_ == nullptr) return;
    EXPECT_EQ(gpu_api()->synchronize_stream(seat_.stream), kGpuSuccess);
    EXPECT_EQ(ncclCommDeregister(seat_.comm, handle_), ncclSuccess);
    handle_ = nullptr;
  }
  void forget() { handle_ = nullptr; }  // the communicator no longer exists
  std::byte* data() const { return memory_.data(); }

  // Floats whose sum shows the order of addition: 1 in rank order, 0 along a ring that begins
  // elsewhere. Works with three ranks or more; with two it is 1 in any order.
  void fill() {
    constexpr float kLarge = 1e8F;
    float mine = seat_.rank == seat_.size - 1 ? 1.0F : 0.0F;
    if (seat_.size > 2 && seat_.rank == 0) mine = kLarge;
    if (seat_.size > 2 && seat_.rank == 1) mine = -kLarge;
    Bytes content(kRegisteredCount * sizeof(float));
    for (std::size_t i = 0; i < kRegisteredCount; ++i)
      std::memcpy(&content[i * sizeof(mine)], &mine, sizeof(mine));
    memory_.put(content, 0, seat_.stream);
  }
  // Number of sums that were added in rank order; the others were added in another order.
  std::size_t in_order() {
    memory_.get(seat_.stream);
    EXPECT_TRUE(memory_.guards_intact());
    std::size_t found = 0;
    for (std::size_t i = 0; i < kRegisteredCount; ++i) {
      float got = 0;
      std::memcpy(&got, memory_.host() + i * sizeof(got), sizeof(got));
      EXPECT_TRUE(got == 1.0F || got == 0.0F) << "element " << i << " is " << got;
      if (::testing::Test::HasFailure()) return 0;
      found += got == 1.0F ? 1 : 0;
    }
    return found;
  }

  static std::int32_t number(int rank, std::size_t i, int round) {
    return static_cast<std::int32_t>(i % 1000) * 7 + rank * 10'000 + round;
  }
  void put_numbers(int round) {
    Bytes content(kRegisteredCount * sizeof(std::int32_t));
    for (std::size_t i = 0; i < kRegisteredCount; ++i) {
      const std::int32_t one = number(seat_.rank, i, round);
      std::memcpy(&content[i * sizeof(one)], &one, sizeof(one));
    }
    memory_.put(content, 0, seat_.stream);
  }
  void check_sums(int round, std::int32_t times = 1) {
    memory_.get(seat_.stream);
    EXPECT_TRUE(memory_.guards_intact());
    for (std::size_t i = 0; i < kRegisteredCount; ++i) {
      std::int32_t got = 0, want = 0;
      std::memcpy(&got, memory_.host() + i * sizeof(got), sizeof(got));
      for (int r = 0; r < seat_.size; ++r) want += number(r, i, round) * times;
      ASSERT_EQ(got, want) << "element " << i << " of rank " << seat_.rank;
    }
  }

 private:
  NcclRank& seat_;
  DeviceBuffer memory_;
  void* handle_ = nullptr;
};

inline void sum(NcclRank& seat, Registered& buffer) {
  NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kRegisteredCount, ncclFloat32, ncclSum,
                        seat.comm, seat.stream));
}
inline void sum_numbers(NcclRank& seat, Registered& buffer) {
  NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kRegisteredCount, ncclInt32, ncclSum,
                        seat.comm, seat.stream));
}
inline bool is_summed_in_place(NcclRank& seat, Registered& buffer) {
  buffer.fill();
  sum(seat, buffer);
  return buffer.in_order() == kRegisteredCount;
}
// All ranks see the same results, so they all stop at the same call.
inline bool comes_to_be_in_place(NcclRank& seat, Registered& buffer) {
  for (int i = 0; i < kPatience && !testing::Test::HasFailure(); ++i) {
    if (is_summed_in_place(seat, buffer)) return true;
    nap(0.01);
  }
  return false;
}

}  // namespace rondo::test
