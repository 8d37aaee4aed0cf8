// SPDX-License-Identifier: Apache-2.0
// Functions that an emulated GPU must provide, for kernels that a host compiler compiles
// (RONDO_SIMT).
//
// kernels/cuda/device.h turns every access of a kernel into one of these calls; tests/simt defines
// them. Each is called on the emulated thread (fiber) that makes the access. Addresses are device
// addresses (or host addresses that the device can reach) and naturally aligned; the emulator
// checks both. A call may switch fibers. Shared memory is addressed by byte offset into the CTA's
// dynamic shared memory.
//
// A kernel is a type with `Args`, `kThreads` (maximum threads per CTA) and `static void run(const
// Args&)`. kernels/cuda/kernels.h lists all of them as KernelEntry{name, argument_bytes, body}; the
// emulator runs entry.body(arguments) once per thread.
#pragma once

#include <cstdint>

namespace rondo::simt {

enum class Order : std::uint8_t { kWeak, kRelaxed, kAcquire, kRelease, kAcquireRelease };
enum class Scope : std::uint8_t { kCta, kDevice, kSystem };
enum class Space : std::uint8_t { kGlobal, kShared };

// Identity of the running thread and the shape of the launch (one-dimensional).
unsigned thread_index();
unsigned thread_count();
unsigned cta_index();
unsigned cta_count();

// bytes: 1, 2, 4, 8 or 16. A weak access guarantees no order. Relaxed accesses of up to 8 bytes are
// atomic; of 16 bytes, each half of 8 is.
void load(void* to, const void* from, unsigned bytes, Order order, Scope scope);
void store(void* at, const void* from, unsigned bytes, Order order, Scope scope);
// Stores part lane % 8 of a 128-byte line, or nothing (at: null). By whole warps; the parts of a
// line become visible at once if the path guarantees it.
void store_line(void* at, const void* from);
// late: another thread may be writing it.
void load_shared(void* to, std::uint32_t offset, unsigned bytes, bool late);
void store_shared(std::uint32_t offset, const void* from, unsigned bytes);

enum class Atomic : std::uint8_t { kAdd, kExchange, kMax, kOr, kAnd };
// bytes: 4 or 8. Returns the old value.
std::uint64_t atomic(Atomic what, void* at, std::uint64_t value, unsigned bytes, Order order,
                     Scope scope);
std::uint64_t compare_exchange(void* at, std::uint64_t expected, std::uint64_t desired,
                               unsigned bytes, Order order, Scope scope);

void fence(Scope scope);  // acquire and release

// For all threads of the CTA. Not aligned: threads may arrive one by one, from any code.
void barrier();

// Barriers in shared memory, at multiples of 8 (mbarriers). A phase ends after N arrivals; test
// returns whether the phase of that parity has ended, wait blocks until it has.
void mbarrier_init(std::uint32_t at, unsigned arrivals);
void mbarrier_end(std::uint32_t at);
void mbarrier_arrive(std::uint32_t at);
bool mbarrier_test(std::uint32_t at, unsigned parity);
void mbarrier_wait(std::uint32_t at, unsigned parity);

// Whole warps only: all 32 lanes (or all lanes of the last warp) call together.
void sync_warp();
std::uint64_t shuffle(std::uint64_t value, unsigned from_lane);
std::uint32_t ballot(bool condition);

std::uint64_t timer_ns();        // %globaltimer: virtual time if the emulator has one
void nap(unsigned nanoseconds);  // a spinning thread calls nap() or spin() in every iteration
void spin();

}  // namespace rondo::simt
