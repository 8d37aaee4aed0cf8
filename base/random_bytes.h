// SPDX-License-Identifier: Apache-2.0
// fill_random(): bytes that nobody can predict, for secrets and for names that must be unique.
//
// They come from getrandom(), or from /dev/urandom where a system call filter refuses that call or
// the kernel is older than Linux 3.17. Throws std::system_error if neither gives any: the C API and
// guarded() make an error of it. Cost: a system call of about 0.3 us.
//
//   Digest digest;
//   fill_random(std::as_writable_bytes(std::span(digest)));
#pragma once

#include <cstddef>
#include <span>

namespace rondo {

// At most 256 bytes, which the kernel gives at once or not at all.
void fill_random(std::span<std::byte> bytes);

}  // namespace rondo
