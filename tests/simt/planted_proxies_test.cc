// Planted proxy faults: bytes written through one proxy and accessed through another, with and
// without the fence between. In weak memory, the only mode that tracks proxies.
#include "kernels/cuda/device_bulk.h"
#include "kernels/cuda/device_multicast.h"
#include "tests/simt/machine_fixture.h"

namespace rondo::simt {
namespace {

using device::Vector;

constexpr Vector kValue{{1, 2, 3, 4}};

// Runs one thread; true if a missing fence was detected.
template <class Body>
bool misses_a_fence(TestMachine& machine, const Body& body) {
  const ExpectViolations expected;
  const auto grid = machine.launch("act", {.threads = 1, .shared_bytes = 256}, body);
  EXPECT_EQ(machine.run(), !expected.saw(Violation::kProxy) || !grid->given_up);
  EXPECT_EQ(expected.texts().empty(), !expected.saw(Violation::kProxy));
  return expected.saw(Violation::kProxy);
}

enum class Fence { kNone, kRight, kTooEarly };

// Ordinary stores to shared memory, then a bulk copy of it.
bool misses_before_a_bulk_store(Fence fence) {
  TestMachine machine({.weak = true});
  auto* const out = machine.allocate<Vector>(1);
  return misses_a_fence(machine, [=] {
    if (fence == Fence::kTooEarly) device::fence_bulk();
    device::store_shared(0, kValue);
    if (fence == Fence::kRight) device::fence_bulk();
    device::bulk_store(out, 0, sizeof(Vector));
    device::bulk_commit();
    device::bulk_wait<0, false>();
    device::load(out);  // its completion is a fence
  });
}

// Ordinary stores to global memory, then a bulk copy of it.
bool misses_before_a_bulk_load(Fence fence) {
  TestMachine machine({.weak = true});
  auto* const data = machine.allocate<Vector>(1);
  return misses_a_fence(machine, [=] {
    constexpr std::uint32_t kBarrierAt = 64;
    device::mbarrier_init(kBarrierAt, 1);
    if (fence == Fence::kTooEarly) device::fence_bulk();
    device::store(data, kValue);
    if (fence == Fence::kRight) device::fence_bulk();
    device::bulk_load(0, data, sizeof(Vector), kBarrierAt);
    while (!device::mbarrier_over(kBarrierAt, 0)) device::spin();
    device::load_shared<Vector>(0);
    device::mbarrier_end(kBarrierAt);
  });
}

TEST(PlantedProxyFaults, BulkCopyOfWhatWasStoredWithoutAFenceIsSeen) {
  for (const auto& misses : {misses_before_a_bulk_store, misses_before_a_bulk_load}) {
    EXPECT_FALSE(misses(Fence::kRight));
    EXPECT_TRUE(misses(Fence::kTooEarly));
    EXPECT_TRUE(misses(Fence::kNone));
  }
}

// A line without ordinary writes needs no fence, even if another line does.
TEST(PlantedProxyFaults, LinesAreFollowedOneByOne) {
  TestMachine machine({.weak = true});
  auto* const out = machine.allocate<Vector>(2);
  EXPECT_FALSE(misses_a_fence(machine, [=] {
    device::store_shared(0, kValue);
    device::fence_bulk();
    device::store_shared(128, kValue);
    device::bulk_store(out, 0, sizeof(Vector));
    device::bulk_commit();
    device::bulk_wait<0, false>();
  }));
}

enum class Turn { kStoredThenAdded, kAddedThenLoaded };

bool misses_beside_multimem(Turn turn, Fence fence) {
  TestMachine machine({.weak = true, .devices = 1});
  constexpr std::size_t kBytes = 64 << 10;
  auto* const own = machine.allocate<Vector>(kBytes / sizeof(Vector));
  auto object = std::make_shared<MulticastObject>(kBytes, 1);
  object->add(0);
  object->bind(0, 0, kBytes, *machine.memory().find(reinterpret_cast<std::uint64_t>(own)), 0);
  Allocation* const mapped =
      machine.memory().map_multicast(machine.memory().reserve(kBytes), object);
  mapped->access = 1;
  auto* const all = reinterpret_cast<Vector*>(mapped->begin);
  return misses_a_fence(machine, [=] {
    if (fence == Fence::kTooEarly) device::fence_aliases();
    if (turn == Turn::kStoredThenAdded) {
      device::store(own, kValue);
      if (fence == Fence::kRight) device::fence_aliases();
      device::load_sum<DataType::kFloat32>(all);
    } else {
      device::store_all(all, kValue);
      if (fence == Fence::kRight) device::fence_aliases();
      device::load(own);
    }
  });
}

TEST(PlantedProxyFaults, MultimemBesideOrdinaryAccessesWithoutAFenceIsSeen) {
  for (const Turn turn : {Turn::kStoredThenAdded, Turn::kAddedThenLoaded}) {
    EXPECT_FALSE(misses_beside_multimem(turn, Fence::kRight));
    EXPECT_TRUE(misses_beside_multimem(turn, Fence::kTooEarly));
    EXPECT_TRUE(misses_beside_multimem(turn, Fence::kNone));
  }
}

// One device stores data, another one copies them in bulk.
enum class Fences { kWriters, kReaders, kNobodys };
bool misses_between_devices(Fences fences, bool stores_in_bulk) {
  TestMachine machine({.weak = true});
  auto* const data = machine.allocate<Vector>(1);
  auto* const flag = machine.allocate<std::uint32_t>(1);
  const ExpectViolations expected;
  machine.launch("writer", {.threads = 1, .shared_bytes = 256}, [=] {
    if (stores_in_bulk) {
      device::store_shared(0, kValue);
      device::fence_bulk();
      device::bulk_store(data, 0, sizeof(Vector));
      device::bulk_commit();
      device::bulk_wait<0, false>();
    } else {
      device::store(data, kValue);
    }
    if (fences == Fences::kWriters) device::fence_bulk();
    device::store_release<device::Scope::kSystem>(flag, 1u);
  });
  machine.launch("reader", {.threads = 1, .shared_bytes = 256, .device = 1}, [=] {
    constexpr std::uint32_t kBarrierAt = 64;
    device::mbarrier_init(kBarrierAt, 1);
    while (device::load_acquire<device::Scope::kSystem>(flag) == 0) device::spin();
    if (fences == Fences::kReaders) device::fence_bulk();
    device::bulk_load(0, data, sizeof(Vector), kBarrierAt);
    while (!device::mbarrier_over(kBarrierAt, 0)) device::spin();
    device::mbarrier_end(kBarrierAt);
  });
  machine.run();
  return expected.saw(Violation::kProxy);
}

TEST(PlantedProxyFaults, EitherSidesFenceServes) {
  for (const bool in_bulk : {false, true}) {
    EXPECT_FALSE(misses_between_devices(Fences::kWriters, in_bulk));
    EXPECT_FALSE(misses_between_devices(Fences::kReaders, in_bulk));
    EXPECT_TRUE(misses_between_devices(Fences::kNobodys, in_bulk));
  }
}

}  // namespace
}  // namespace rondo::simt
