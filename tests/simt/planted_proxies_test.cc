// SPDX-License-Identifier: Apache-2.0
// Planted proxy faults: bytes written through one proxy and accessed through another, with and
// without the fence between. In weak memory, the only mode that tracks proxies.
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

}  // namespace
}  // namespace rondo::simt
