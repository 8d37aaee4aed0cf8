// Collectives of processes with GPUs of their own on buffers that are registered, or come from
// ncclMemAlloc: worked on in place, if those of all ranks are; right in any case.
#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

// More than staging takes, and no multiple of anything.
constexpr std::size_t kCount = 262'147;
constexpr int kPatience = 300;  // calls until they must have come to be tried

// Memory of the rank, a little off alignment, registered until it goes.
class Registered {
 public:
  explicit Registered(NcclRank& seat, std::size_t shift = 0, bool registered = true)
      : seat_(seat), memory_(kCount * sizeof(float), shift) {
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
  std::byte* data() const { return memory_.data(); }

  // Floats whose sum tells in which order it was made: in the order of ranks 1, along a ring that
  // begins elsewhere 0. Of three ranks or more; of two it is 1 in any order.
  void fill() {
    constexpr float kLarge = 1e8F;
    float mine = seat_.rank == seat_.size - 1 ? 1.0F : 0.0F;
    if (seat_.size > 2 && seat_.rank == 0) mine = kLarge;
    if (seat_.size > 2 && seat_.rank == 1) mine = -kLarge;
    Bytes content(kCount * sizeof(float));
    for (std::size_t i = 0; i < kCount; ++i)
      std::memcpy(&content[i * sizeof(mine)], &mine, sizeof(mine));
    memory_.put(content, 0, seat_.stream);
  }
  // How many sums are in the order of ranks; all others are another order's.
  std::size_t in_order() {
    memory_.get(seat_.stream);
    EXPECT_TRUE(memory_.guards_intact());
    std::size_t found = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      float got = 0;
      std::memcpy(&got, memory_.host() + i * sizeof(got), sizeof(got));
      EXPECT_TRUE(got == 1.0F || got == 0.0F) << "element " << i << " is " << got;
      if (::testing::Test::HasFailure()) return 0;
      found += got == 1.0F ? 1 : 0;
    }
    return found;
  }

 private:
  NcclRank& seat_;
  DeviceBuffer memory_;
  void* handle_ = nullptr;
};

void sum(NcclRank& seat, Registered& buffer) {
  NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclFloat32, ncclSum, seat.comm,
                        seat.stream));
}
bool is_summed_in_place(NcclRank& seat, Registered& buffer) {
  buffer.fill();
  sum(seat, buffer);
  return buffer.in_order() == kCount;
}
// All ranks see the same, so they all stop at the same call.
bool comes_to_be_in_place(NcclRank& seat, Registered& buffer) {
  for (int i = 0; i < kPatience && !testing::Test::HasFailure(); ++i) {
    if (is_summed_in_place(seat, buffer)) return true;
    nap(0.01);
  }
  return false;
}

TEST(InPlace, SumsAreMadeInRegisteredMemory) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  run_job(as_processes(3, Gpus::kOneEach), 200, [](NcclRank& seat) {
    Registered buffer(seat, 12);
    EXPECT_TRUE(comes_to_be_in_place(seat, buffer));
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_summed_in_place(seat, buffer));
  });
}

}  // namespace
}  // namespace rondo::test
