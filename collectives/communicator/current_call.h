// CurrentCall: the call that a rank is in, as faults and peers are told of it.
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
  CallRecord record;      // kNone: in none
  int waiting_parts = 1;  // of the call, which run at once

  std::string text() const {
    if (is_message(record)) return to_string(record);
    return fmt::format("call {}, {}", host.sequence, to_string(record));
  }
};

}  // namespace rondo
