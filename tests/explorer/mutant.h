// SPDX-License-Identifier: Apache-2.0
// Mutant: the real code with exactly one error, without a second copy of the code.
//
// The machine below the code makes the error: it executes one kind of access to one kind of word
// with a weaker order, or behaves as if one line (the re-check, the ring) were missing.
#pragma once

#include <cstdint>
#include <string>

namespace rondo::explorer {

// Purpose of a word of shared memory.
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
    kLoad,               // loads of `role` with order `from` get order `to`
    kStore,              // stores to `role` with order `from` get order `to`
    kIncrement,          // the bell's increment is relaxed
    kNoFence,            // the fence before the last check of a sleep does nothing
    kNoPastFence,        // non-temporal stores are followed by no fence
    kNoRecheck,          // the check after setting `parked` sees the values of the check before
    kBellReadLate,       // the bell is read after the re-check
    kBellReadAtParking,  // the bell is read when `parked` is set, after the supervisor's check
    kNoIncrement,        // the bell is not incremented, but its sleeper is woken
    kNoWake,             // the bell is incremented, but its sleeper is not woken
    kNoRing,             // `parked` always reads as unset
    kOneTooMany,         // if a value of `role` is seen twice in a row, it reads as one more
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
