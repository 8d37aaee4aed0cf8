// SPDX-License-Identifier: Apache-2.0
// Pointers: an array for the operands of a reduction; on the stack for the usual rank counts, else
// on the heap.
#pragma once

#include <cstddef>
#include <memory>

namespace rondo::host {

template <class T>
class Pointers {
 public:
  explicit Pointers(std::size_t count)
      : large_(count > kInline ? std::make_unique<T[]>(count) : nullptr),
        data_(large_ ? large_.get() : inline_) {}
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T* data() { return data_; }

 private:
  static constexpr std::size_t kInline = 66;
  T inline_[kInline];
  std::unique_ptr<T[]> large_;
  T* data_;
};

}  // namespace rondo::host
