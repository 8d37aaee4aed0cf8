// SPDX-License-Identifier: Apache-2.0
// Tests the explorer itself: it allows all that each memory model allows, and no more.
#include "tests/explorer/expect.h"
#include "tests/explorer/sim_atomics.h"

namespace rondo::explorer {
namespace {

// Two actors, two words, and the values that each actor read. `text` is their program.
class Litmus : public Scenario {
 public:
  using Algorithm = void (*)(Litmus& shared, int actor);
  using Check = std::string (*)(const Litmus& shared);
  Litmus(Algorithm text, Check check) : text_(text), check_(check) {}

  int actors() const override { return 2; }
  std::span<std::byte> memory() override { return std::as_writable_bytes(std::span(&shared, 1)); }
  void describe(Machine& machine) override {
    machine.word(shared.x, Role::kTail, Machine::kAnyone, "x");
    machine.word(shared.y, Role::kHead, Machine::kAnyone, "y");
    machine.plain(shared.data, "data");
  }
  void reset() override { read[0] = read[1] = second = 0; }
  void act(Machine&, int actor) override { text_(*this, actor); }
  std::string check() override { return check_(*this); }

  struct {
    std::uint64_t x, y, data;
  } shared{};
  std::uint64_t read[2] = {};
  std::uint64_t second = 0;

 private:
  Algorithm text_;
  Check check_;
};

using A = SimAtomics;

std::string both_zero(const Litmus& l) { return l.read[0] + l.read[1] == 0 ? "both read 0" : ""; }
std::string reordered(const Litmus& l) {
  return l.read[1] == 1 && l.second == 0 ? "y before x" : "";
}
std::string nothing(const Litmus&) { return {}; }

// Store buffering: each actor stores its word and loads the other's.
template <auto store, auto load>
void store_then_load(Litmus& l, int actor) {
  store(actor == 0 ? l.shared.x : l.shared.y, std::uint64_t{1});
  l.read[actor] = load(actor == 0 ? l.shared.y : l.shared.x);
}
void store_fence_load(Litmus& l, int actor) {
  A::store_relaxed(actor == 0 ? l.shared.x : l.shared.y, std::uint64_t{1});
  A::fence_seq_cst();
  l.read[actor] = A::load_relaxed(actor == 0 ? l.shared.y : l.shared.x);
}

TEST(Explorer, StoresLingerInTheirBuffers) {
  Litmus litmus(store_then_load<A::store_release<std::uint64_t>, A::load_acquire<std::uint64_t>>,
                both_zero);
  expect_found(litmus, Model::kTso, {}, "both read 0");
}
TEST(Explorer, SeqCstStoresDoNotOnX86) {
  Litmus litmus(store_then_load<A::store_seq_cst<std::uint64_t>, A::load_acquire<std::uint64_t>>,
                both_zero);
  expect_passes(litmus, Model::kTso);
  expect_found(litmus, Model::kWeak, {}, "both read 0");
}
TEST(Explorer, SeqCstStoresBeforeSeqCstLoadsNeverDo) {
  Litmus litmus(store_then_load<A::store_seq_cst<std::uint64_t>, A::load_seq_cst<std::uint64_t>>,
                both_zero);
  expect_passes(litmus, Model::kTso);
  expect_passes(litmus, Model::kWeak);
}
TEST(Explorer, AFenceOrdersStoresAndLoads) {
  Litmus litmus(store_fence_load, both_zero);
  expect_passes(litmus, Model::kTso);
  expect_passes(litmus, Model::kWeak);
}

// Message passing: one actor stores x, then y; the other loads y, then x.
template <auto store_y>
void two_stores(Litmus& l, int actor) {
  if (actor == 0) {
    A::store_relaxed(l.shared.x, std::uint64_t{1});
    store_y(l.shared.y, std::uint64_t{1});
    return;
  }
  l.read[1] = A::load_acquire(l.shared.y);
  l.second = A::load_relaxed(l.shared.x);
}
TEST(Explorer, RelaxedStoresChangePlacesButNotOnX86) {
  Litmus litmus(two_stores<A::store_relaxed<std::uint64_t>>, reordered);
  expect_passes(litmus, Model::kTso);
  expect_found(litmus, Model::kWeak, {}, "y before x");
}
TEST(Explorer, AReleaseStoreOvertakesNothing) {
  Litmus litmus(two_stores<A::store_release<std::uint64_t>>, reordered);
  expect_passes(litmus, Model::kWeak);
}

template <auto store, auto load>
void pass_data(Litmus& l, int actor) {
  if (actor == 0) {
    A::store_plain(l.shared.data, std::uint64_t{1});
    store(l.shared.x, std::uint64_t{1});
  } else if (load(l.shared.x) == 1) {
    A::load_plain(l.shared.data);
  }
}
TEST(Explorer, DataIsPassedByReleaseAndAcquire) {
  Litmus litmus(pass_data<A::store_release<std::uint64_t>, A::load_acquire<std::uint64_t>>,
                nothing);
  expect_passes(litmus, Model::kWeak);
}
TEST(Explorer, ARelaxedStoreOrLoadMakesARace) {
  Litmus stores(pass_data<A::store_relaxed<std::uint64_t>, A::load_acquire<std::uint64_t>>,
                nothing);
  expect_found(stores, Model::kTso, {}, "data race");
  Litmus loads(pass_data<A::store_release<std::uint64_t>, A::load_relaxed<std::uint64_t>>, nothing);
  expect_found(loads, Model::kTso, {}, "data race");
}

}  // namespace
}  // namespace rondo::explorer
