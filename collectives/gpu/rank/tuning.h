// SPDX-License-Identifier: Apache-2.0
// Tuning: the ranks of a communicator on GPUs ask their tuner plugin, once, and compare its
// answers.
//
// Collective, after all ranks are bound (binding.h). Guarantees: all ranks plan by the same answers
// from then on, or all are refused, with the first call on which two ranks' plugins differ. So a
// plugin whose answers change from call to call cannot make two ranks choose differently. Cost:
// that of ask_tuner(), and an exchange of 8 bytes per rank, of some hundred more if answers differ.
#pragma once

#include <string>

#include "base/result.h"
#include "collectives/host/rank_state.h"
#include "collectives/tuner/tuner_plugin.h"
#include "transport/bootstrap/session.h"

namespace rondo::gpu {

// Why all ranks are refused, which each finds by itself; "": they agree. An error is only this
// rank's.
Result<std::string> agree_on_tuning(RankState& state, bootstrap::Session& session,
                                    const tuner::TunerPlugin& plugin);

}  // namespace rondo::gpu
