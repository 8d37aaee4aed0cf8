// Reaches into a Mailbox and its communicator: sets counters to where they end, and limits of
// peers.
#pragma once

#include "collectives/communicator_state.h"
#include "collectives/mailbox.h"

namespace rondo::test {

struct MailboxSeam {
  static void set_last_offer(Mailbox& mailbox, std::uint32_t id) { mailbox.last_id_ = id; }
  static void set_eager_bytes_of_peer(Mailbox& mailbox, int peer, std::uint64_t bytes) {
    std::lock_guard lock(mailbox.mutex_);
    mailbox.peers_[peer].eager_bytes = bytes;
  }
  static CommunicatorState& state(Mailbox& mailbox) { return mailbox.state_; }
};

}  // namespace rondo::test
