// CurrentCall: the call that a rank is executing, for fault messages and reports to peers.
#pragma once

#include <fmt/format.h>

#include <string>

#include "base/types.h"
#include "collectives/watchdog/peer_words.h"
#include "kernels/host/host_rank.h"

namespace rondo {

struct CurrentCall {
  explicit CurrentCall(const host::HostRank& host) : host(host) {}

  const host::HostRank& host;
  CallRecord record;      // kNone: not in a call
  int waiting_parts = 1;  // parts of the call that run concurrently and may each wait

  std::string text() const {
    if (is_message(record)) return to_string(record);
    return fmt::format("call {}, {}", host.sequence, to_string(record));
  }
};

}  // namespace rondo
