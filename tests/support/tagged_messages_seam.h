// SPDX-License-Identifier: Apache-2.0
// Test access to TaggedMessages and its communicator: sets counters close to their wrap, sets
// limits of peers, and holds both still so that a test controls the order of events.
#pragma once

#include "collectives/communicator/communicator_state.h"
#include "collectives/messages/tagged_messages.h"

namespace rondo::test {

struct TaggedMessagesSeam {
  static void set_last_offer(TaggedMessages& messages, std::uint32_t id) {
    messages.traffic_.last_offer = id;
  }
  static void set_eager_bytes_of_peer(TaggedMessages& messages, int peer, std::uint64_t bytes) {
    std::lock_guard lock(messages.mutex_);
    messages.queues_.peers[peer].eager_bytes = bytes;
  }
  // Until the lock is released, they receive and check nothing except through this seam.
  static std::unique_lock<std::mutex> hold(TaggedMessages& messages) {
    return std::unique_lock(messages.mutex_);
  }
  static void look_for_ended(TaggedMessages& held) {
    held.queues_.last_look_ns = 0;
    held.look_for_ended();
  }
  static void progress(TaggedMessages& held) { held.traffic_.progress(); }
  // What fits into the slots from this peer.
  static std::size_t slots_from(TaggedMessages& held, int peer) {
    const Connection& from = *held.queues_.peers[peer].from;
    return std::size_t{from.slot_bytes} * from.slot_count;
  }
  static CommunicatorState& state(TaggedMessages& messages) { return messages.state_; }
};

}  // namespace rondo::test
