// SPDX-License-Identifier: Apache-2.0
// The accessors of device.h as calls of the emulated GPU. Included by device.h only.
#pragma once

#include <bit>
#include <type_traits>

namespace rondo::device {

inline constexpr simt::Scope hook(Scope scope) { return static_cast<simt::Scope>(scope); }

inline unsigned thread_index() { return simt::thread_index(); }
inline unsigned thread_count() { return simt::thread_count(); }
inline unsigned cta_index() { return simt::cta_index(); }
inline unsigned cta_count() { return simt::cta_count(); }
inline std::uint64_t opaque(std::uint64_t value) { return value; }

template <class T>
T load_as(const T* from, simt::Order order, simt::Scope scope) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
  T value;
  simt::load(&value, from, sizeof(T), order, scope);
  return value;
}

template <class T>
T load(const T* from) {
  return load_as(from, simt::Order::kWeak, simt::Scope::kCta);
}
template <class T>
T load_once(const T* from) {
  return load(from);
}
template <class T>
void store(T* at, T value) {
  simt::store(at, &value, sizeof(T), simt::Order::kWeak, simt::Scope::kCta);
}
template <class T>
void store_once(T* at, T value) {
  store(at, value);
}

inline void prefetch(const void* /*from*/) {}

template <Scope scope, class T>
T load_relaxed(const T* from) {
  return load_as(from, simt::Order::kRelaxed, hook(scope));
}
template <Scope scope, class T>
T load_acquire(const T* from) {
  return load_as(from, simt::Order::kAcquire, hook(scope));
}
template <Scope scope, class T>
void store_relaxed(T* at, T value) {
  simt::store(at, &value, sizeof(T), simt::Order::kRelaxed, hook(scope));
}
template <Scope scope, class T>
void store_release(T* at, T value) {
  simt::store(at, &value, sizeof(T), simt::Order::kRelease, hook(scope));
}
inline Pair load_pair(const Pair* from) { return load_relaxed<Scope::kSystem>(from); }
inline void store_pair(Pair* to, Pair pair) { store_relaxed<Scope::kSystem>(to, pair); }
inline void store_line(Pair* to, Pair pair) { simt::store_line(to, &pair); }
template <Scope scope, class T>
T add_relaxed(T* at, T value) {
  return static_cast<T>(
      simt::atomic(simt::Atomic::kAdd, at, value, sizeof(T), simt::Order::kRelaxed, hook(scope)));
}
template <Scope scope, class T>
T exchange_relaxed(T* at, T value) {
  return static_cast<T>(simt::atomic(simt::Atomic::kExchange, at, value, sizeof(T),
                                     simt::Order::kRelaxed, hook(scope)));
}
template <Scope scope>
void fence() {
  simt::fence(hook(scope));
}

template <class T>
T load_shared(std::uint32_t offset) {
  T value;
  simt::load_shared(&value, offset, sizeof(T), false);
  return value;
}
template <class T>
T load_shared_late(std::uint32_t offset) {
  T value;
  simt::load_shared(&value, offset, sizeof(T), true);
  return value;
}
template <class T>
void store_shared(std::uint32_t offset, T value) {
  simt::store_shared(offset, &value, sizeof(T));
}

inline void barrier() { simt::barrier(); }
inline void sync_warp() { simt::sync_warp(); }
inline std::uint32_t shuffle(std::uint32_t value, unsigned from_lane) {
  return static_cast<std::uint32_t>(simt::shuffle(value, from_lane));
}
inline std::uint32_t ballot(bool condition) { return simt::ballot(condition); }
inline unsigned lowest_bit(std::uint32_t word) {
  return static_cast<unsigned>(std::countr_zero(word));
}

inline std::uint64_t timer_ns() { return simt::timer_ns(); }
inline void nap(unsigned nanoseconds) { simt::nap(nanoseconds); }
inline void spin() { simt::spin(); }

}  // namespace rondo::device
