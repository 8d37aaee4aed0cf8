// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/nudge.h"

#include <sched.h>

#include "base/doorbell.h"
#include "base/seconds.h"

namespace rondo::host {
namespace {

// The C library's functions take masks of any size as a cpu_set_t of 1024 CPUs.
const cpu_set_t* as_cpu_set(const CoreMask& mask) {
  return reinterpret_cast<const cpu_set_t*>(mask.words);
}
cpu_set_t* as_cpu_set(CoreMask& mask) { return reinterpret_cast<cpu_set_t*>(mask.words); }

}  // namespace

std::uint32_t HostCores::core() { return DoorbellAtomics::core(); }

// Fails where the kernel has more CPUs than a CoreMask.
bool HostCores::read_mask(CoreMask& mask) {
  mask = {};
  return sched_getaffinity(0, sizeof mask.words, as_cpu_set(mask)) == 0;
}

bool HostCores::set_mask(const CoreMask& mask) {
  return sched_setaffinity(0, sizeof mask.words, as_cpu_set(mask)) == 0;
}

std::int64_t HostCores::now() { return now_ns(); }

}  // namespace rondo::host
