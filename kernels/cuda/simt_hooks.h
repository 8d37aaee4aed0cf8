// What an emulated GPU must provide, for kernels that are compiled by a host compiler (RONDO_SIMT).
//
// kernels/cuda/device.h turns every access of a kernel into one of these calls; tests/simt defines
// them. Each is called on the emulated thread (fiber) that makes the access. Addresses are device
// addresses (or host addresses that the device can reach) and naturally aligned: the emulator
// checks both. A call may switch fibers. Shared memory is addressed by byte offset into the CTA's
// dynamic shared memory.
//
// A kernel is a type with `Args`, `kThreads` (most threads a CTA) and `static void run(const
// Args&)`; kernels/cuda/kernels.h lists all of them as KernelEntry{name, argument_bytes, body}, and
// the emulator runs entry.body(arguments) once per thread.
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

// bytes: 1, 2, 4, 8 or 16. A weak access promises no order; relaxed ones up to 8 bytes are whole,
// 16 bytes are whole in halves of 8.
void load(void* to, const void* from, unsigned bytes, Order order, Scope scope);
void store(void* at, const void* from, unsigned bytes, Order order, Scope scope);
// Part lane % 8 of a line of 128 bytes, or nothing (at: null). By whole warps; the parts of a line
// become visible at once where the path promises it.
void store_line(void* at, const void* from);
void load_shared(void* to, std::uint32_t offset, unsigned bytes);
void store_shared(std::uint32_t offset, const void* from, unsigned bytes);

enum class Atomic : std::uint8_t { kAdd, kExchange, kMax, kOr, kAnd };
// bytes: 4 or 8. Returns the old value.
std::uint64_t atomic(Atomic what, void* at, std::uint64_t value, unsigned bytes, Order order,
                     Scope scope);
std::uint64_t compare_exchange(void* at, std::uint64_t expected, std::uint64_t desired,
                               unsigned bytes, Order order, Scope scope);

void fence(Scope scope);  // acquire and release

// For all threads of the CTA. Not aligned: they come one by one, from anywhere.
void barrier();

// Barriers in shared memory, at multiples of 8 (mbarriers). A phase ends with N arrivals;
// test says whether the phase of that parity is over, wait blocks until it is.
void mbarrier_init(std::uint32_t at, unsigned arrivals);
void mbarrier_end(std::uint32_t at);
void mbarrier_arrive(std::uint32_t at);
void mbarrier_expect(std::uint32_t at, unsigned bytes);  // arrives; so much is to be copied besides
bool mbarrier_test(std::uint32_t at, unsigned parity);
void mbarrier_wait(std::uint32_t at, unsigned parity);

// Whole warps only: all 32 lanes (or all there are in the last warp) call together.
void sync_warp();
std::uint64_t shuffle(std::uint64_t value, unsigned from_lane);
std::uint32_t ballot(bool condition);

std::uint64_t timer_ns();        // %globaltimer: virtual time where the emulator has one
void nap(unsigned nanoseconds);  // a spinning thread calls nap() or spin() in every turn
void spin();

}  // namespace rondo::simt
