// Reaches into a Mailbox and its communicator: sets counters to where they end, and limits of
// peers; holds a mailbox still, so that a test says what it does when.
#pragma once

#include "collectives/communicator/communicator_state.h"
#include "collectives/host/mailbox.h"

namespace rondo::test {

struct MailboxSeam {
  static void set_last_offer(Mailbox& mailbox, std::uint32_t id) { mailbox.last_id_ = id; }
  static void set_eager_bytes_of_peer(Mailbox& mailbox, int peer, std::uint64_t bytes) {
    std::lock_guard lock(mailbox.mutex_);
    mailbox.peers_[peer].eager_bytes = bytes;
  }
  // Until it ends, the mailbox neither takes nor looks for anything but through this seam.
  static std::unique_lock<std::mutex> hold(Mailbox& mailbox) {
    return std::unique_lock(mailbox.mutex_);
  }
  static void look_for_ended(Mailbox& held) {
    held.last_look_ns_ = 0;
    held.look_for_ended();
  }
  static void progress(Mailbox& held) { held.progress(); }
  static CommunicatorState& state(Mailbox& mailbox) { return mailbox.state_; }
};

}  // namespace rondo::test
