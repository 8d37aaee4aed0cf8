// meet_again(): all ranks of a communicator on GPUs meet on the host once more and tell each other
// some bytes: windows, colours of a split, notes of a grow.
//
// Their host engine does what streams ask for, when streams come to it, so that what the host asks
// for at once goes past it: a session of its own, where the communicator's first rank listens.
// Collective. Guarantees: ends with the communicator's timeout, its fault or its end, or with the
// death of a rank of this host; what fails is the communicator's fault. Cost: a session
// (bootstrap/session.h), a millisecond or so.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/communicator/communicator_state.h"

namespace rondo {

// what: the function of the API that this is for, the same on every rank.
Result<std::vector<std::vector<std::byte>>> meet_again(CommunicatorState& state,
                                                       std::string_view what,
                                                       std::span<const std::byte> mine);

}  // namespace rondo
