// SPDX-License-Identifier: Apache-2.0
// HandleTable: maps the handles of the C API to objects.
//
// Guarantees: a handle is an index and a generation, never an address, so a foreign, stale or
// corrupt handle is detected without being dereferenced. An object lives while a Pin is held.
// remove() succeeds for exactly one caller and waits until the other pins are released; it calls
// wake() until then, which can make their holders return. In a forked child, the parent's handles
// are kForked. Cost: two uncontended atomic additions per look-up, none for pin_here(); no lock.
// Freed indices are reused.
//
//   HandleTable<Comm> table(HandleKind::kComm);
//   void* handle = table.insert(std::make_unique<Comm>(...));
//   auto found = table.pin(handle);
//   if (found.state == HandleState::kAlive) return found.pin->rank();
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "api/thread_record.h"
#include "base/asymmetric_fence.h"
#include "base/process.h"

namespace rondo::api {

enum class HandleKind : std::uint64_t {
  kComm = 1,
  kWindow = 2,
  kRegistration = 3,
  kStream = 4,
  kRequest = 5,
  kCompletions = 6,
  kLaunch = 7
};
enum class HandleState { kAlive, kForeign, kDestroyed, kForked };

template <class T>
class HandleTable {
  struct Slot;

 public:
  class Pin {
   public:
    Pin() = default;
    explicit Pin(Slot* slot, ThreadRecord* user = nullptr) : slot_(slot), user_(user) {}
    Pin(Pin&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)), user_(other.user_) {}
    Pin& operator=(Pin&& other) noexcept {
      std::swap(slot_, other.slot_);
      std::swap(user_, other.user_);
      return *this;
    }
    ~Pin() {
      if (slot_ == nullptr) return;
      if (user_ != nullptr) {
        user_->hazard.store(nullptr, std::memory_order_release);
      } else {
        slot_->state.fetch_sub(1, std::memory_order_release);
      }
    }
    // Turns a pin of pin_here() into an ordinary one, which may outlive the call and change
    // threads.
    void keep() {
      if (slot_ == nullptr || user_ == nullptr) return;
      slot_->state.fetch_add(1, std::memory_order_acquire);
      std::exchange(user_, nullptr)->hazard.store(nullptr, std::memory_order_release);
    }
    T* get() const { return slot_ == nullptr ? nullptr : slot_->object; }
    T* operator->() const { return get(); }
    T& operator*() const { return *get(); }

   private:
    Slot* slot_ = nullptr;
    ThreadRecord* user_ = nullptr;  // null: counted in the slot's state
  };

  struct Found {
    HandleState state = HandleState::kForeign;
    Pin pin;
  };

  explicit HandleTable(HandleKind kind) : kind_(kind) { prepare_fences(); }

  // Returns the handle, or nullptr if all 2^20 are in use.
  void* insert(std::unique_ptr<T> object) {
    std::lock_guard lock(mutex_);
    std::uint32_t index;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      if (used_ == kChunks * kChunkSlots) return nullptr;
      index = used_;
      free_.reserve((index / kChunkSlots + 1) * kChunkSlots);  // so that remove() does not allocate
      if (index % kChunkSlots == 0)
        chunks_[index / kChunkSlots].store(new Slot[kChunkSlots], std::memory_order_release);
      ++used_;
    }
    Slot& slot = *find_slot(index);
    slot.object = object.release();
    slot.epoch = fork_generation();
    // A concurrent pin() of a stale handle may have counted itself in this slot: keep the count.
    std::uint64_t old = slot.state.load(std::memory_order_relaxed);
    std::uint64_t fresh;
    do {
      std::uint64_t generation = ((old >> kGenerationShift) + 1) & kGenerationMask;
      if (generation == 0) generation = 1;
      fresh = generation << kGenerationShift | kAliveBit | (old & kPinMask);
    } while (!slot.state.compare_exchange_weak(old, fresh, std::memory_order_release,
                                               std::memory_order_relaxed));
    return encode(index, fresh >> kGenerationShift);
  }

  Found pin(const void* handle) {
    Slot* slot = nullptr;
    std::uint64_t generation = 0;
    if (!decode(handle, &slot, &generation)) return {HandleState::kForeign, {}};
    const std::uint64_t old = slot->state.fetch_add(1, std::memory_order_acquire);
    Pin pin(slot);
    if (old >> kGenerationShift != generation || (old & kAliveBit) == 0)
      return {
          (old >> kGenerationShift) < generation ? HandleState::kForeign : HandleState::kDestroyed,
          {}};
    if (slot->epoch != fork_generation()) return {HandleState::kForked, {}};
    return {HandleState::kAlive, std::move(pin)};
  }

  // The same for use on this thread only and before the API call returns. A thread holds at most
  // one such pin; while it does, this returns an ordinary pin.
  Found pin_here(const void* handle) {
    Slot* slot = nullptr;
    std::uint64_t generation = 0;
    if (!decode(handle, &slot, &generation)) return {HandleState::kForeign, {}};
    ThreadRecord& user = own_record();
    if (user.hazard.load(std::memory_order_relaxed) != nullptr) return pin(handle);
    store_before_loads(user.hazard, static_cast<const void*>(slot));
    const std::uint64_t now = slot->state.load(std::memory_order_seq_cst);
    const bool alive = now >> kGenerationShift == generation && (now & kAliveBit) != 0 &&
                       slot->epoch == fork_generation();
    if (alive) return {HandleState::kAlive, Pin(slot, &user)};
    user.hazard.store(nullptr, std::memory_order_release);
    return pin(handle);  // returns the reason
  }

  // Removes the object; pin() returns kDestroyed from now on. Only the first caller gets the
  // object.
  template <class Wake>
  std::unique_ptr<T> remove(const void* handle, HandleState* state, Wake&& wake) {
    Found found = pin(handle);
    *state = found.state;
    if (found.state != HandleState::kAlive) return nullptr;
    Slot* slot = nullptr;
    std::uint64_t generation = 0;
    decode(handle, &slot, &generation);
    if ((slot->state.fetch_and(~kAliveBit, std::memory_order_seq_cst) & kAliveBit) == 0) {
      *state = HandleState::kDestroyed;
      return nullptr;
    }
    heavy_fence();
    wake(*slot->object);
    const auto pinned = [&] {
      return is_in_use(slot) || (slot->state.load(std::memory_order_acquire) & kPinMask) > 1;
    };
    for (int turn = 0; pinned(); ++turn) {
      if (turn < 64) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        wake(*slot->object);
      }
    }
    std::unique_ptr<T> object(std::exchange(slot->object, nullptr));
    std::lock_guard lock(mutex_);
    free_.push_back(index_of(handle));
    return object;
  }
  std::unique_ptr<T> remove(const void* handle, HandleState* state) {
    return remove(handle, state, [](T&) {});
  }

 private:
  // Layout of Slot::state: generation, alive bit, number of pins.
  static constexpr int kGenerationShift = 32;
  static constexpr std::uint64_t kGenerationMask = (1u << 28) - 1;
  static constexpr std::uint64_t kAliveBit = 1u << 31;
  static constexpr std::uint64_t kPinMask = kAliveBit - 1;
  static constexpr std::uint32_t kChunkSlots = 1024;
  static constexpr std::uint32_t kChunks = 1024;

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> state{0};
    T* object = nullptr;
    std::uint32_t epoch = 0;
  };

  // With 0x52 in the top byte, a handle is an address that no x86-64 or arm64 program can map. A
  // program that dereferences a handle crashes at once.
  static constexpr std::uint64_t kTag = 0x52;

  void* encode(std::uint32_t index, std::uint64_t generation) const {
    const std::uint64_t bits =
        kTag << 56 | static_cast<std::uint64_t>(kind_) << 48 | generation << 20 | index;
    return reinterpret_cast<void*>(bits);
  }
  static std::uint32_t index_of(const void* handle) {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(handle) & 0xfffff);
  }
  bool decode(const void* handle, Slot** slot, std::uint64_t* generation) const {
    const auto bits = reinterpret_cast<std::uint64_t>(handle);
    if (bits >> 48 != (kTag << 8 | static_cast<std::uint64_t>(kind_))) return false;
    *slot = find_slot(index_of(handle));
    *generation = bits >> 20 & kGenerationMask;
    return *slot != nullptr && *generation != 0;
  }
  Slot* find_slot(std::uint32_t index) const {
    Slot* chunk = chunks_[index / kChunkSlots].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : chunk + index % kChunkSlots;
  }

  const HandleKind kind_;
  std::array<std::atomic<Slot*>, kChunks> chunks_{};  // never freed: late look-ups stay safe
  std::mutex mutex_;
  std::vector<std::uint32_t> free_;
  std::uint32_t used_ = 0;
};

}  // namespace rondo::api
