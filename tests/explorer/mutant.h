// Mutant: the real code with exactly one thing made wrong, without a second copy of the code.
//
// The machine below the code does it: it executes one kind of access to one kind of word with a
// weaker order, or behaves as if one line (the re-check, the ring) were missing.
#pragma once

#include <cstdint>
#include <string>

namespace rondo::explorer {

// What a word of shared memory is for.
enum class Role : std::uint8_t {
  kPlain,
  kTail,
  kHead,
  kBell,
  kParked,
  kLine,
  kStep,
  kSequence,
  kFault
};
enum class Order : std::uint8_t { kRelaxed, kAcquire, kRelease, kSeqCst };

struct Mutant {
  enum class Kind : std::uint8_t {
    kNone,
    kLoad,               // loads of `role` with order `from` have order `to`
    kStore,              // stores to `role`: the same
    kIncrement,          // the bell's increment is relaxed
    kNoFence,            // the fence of who goes to sleep, before it looks again, does nothing
    kNoRecheck,          // the check after setting `parked` sees what the one before it saw
    kBellReadLate,       // the bell is read after the re-check
    kBellReadAtParking,  // the bell is read when `parked` is set, after the supervisor's check
    kNoIncrement,        // the bell is not incremented, its sleeper is woken
    kNoWake,             // the bell is incremented, its sleeper is not woken
    kNoRing,             // `parked` is never seen set
    kOneTooMany,         // a value of `role` that is seen twice in a row is taken for one more
  };
  Kind kind = Kind::kNone;
  Role role = Role::kPlain;
  Order from = Order::kRelaxed;
  Order to = Order::kRelaxed;
};

constexpr Mutant weaker_store(Role role, Order from, Order to) {
  return {Mutant::Kind::kStore, role, from, to};
}
constexpr Mutant weaker_load(Role role, Order from, Order to) {
  return {Mutant::Kind::kLoad, role, from, to};
}
constexpr Mutant too_many(Role role) { return {Mutant::Kind::kOneTooMany, role, {}, {}}; }
constexpr Mutant without(Mutant::Kind kind) { return {kind, {}, {}, {}}; }

}  // namespace rondo::explorer
