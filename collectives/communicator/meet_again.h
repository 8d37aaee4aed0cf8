// SPDX-License-Identifier: Apache-2.0
// meet_again(): exchanges a few bytes between all ranks of a communicator on GPUs: windows, colors
// of a split, tickets of a grow.
//
// The host engine of such ranks serves calls in stream order and cannot run a call of the host at
// once. This exchange therefore uses a new session at the listener of the communicator's first
// rank. Collective. Guarantees: ends at the communicator's timeout, fault or end, or if a rank on
// this host dies. A failure becomes the communicator's fault. Cost: one session
// (bootstrap/session.h), about a millisecond.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/communicator/communicator_state.h"

namespace rondo {

// what: the API function that calls this, the same on every rank.
Result<std::vector<std::vector<std::byte>>> meet_again(CommunicatorState& state,
                                                       std::string_view what,
                                                       std::span<const std::byte> mine);

}  // namespace rondo
