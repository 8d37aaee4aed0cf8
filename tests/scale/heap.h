// SPDX-License-Identifier: Apache-2.0
// The heap of this program, all threads together: operator new and delete are counted.
//
//   HeapPeak peak;  work();  EXPECT_LT(peak.bytes(), 64 << 20);
#pragma once

#include <cstddef>

namespace rondo::test {

// The maximum number of bytes in use since its construction, beyond those in use before it. Only
// one HeapPeak can exist at a time.
class HeapPeak {
 public:
  HeapPeak();
  std::size_t bytes() const;

 private:
  std::size_t before_;
};

}  // namespace rondo::test
