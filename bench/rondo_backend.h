// SPDX-License-Identifier: Apache-2.0
// RondoBackend: the Backend that measures Rondo itself, by nccl.h and rondo.h.
#pragma once

#include <memory>

#include "bench/backend.h"

namespace rondo::bench {

std::unique_ptr<Backend> make_rondo_backend();

}  // namespace rondo::bench
