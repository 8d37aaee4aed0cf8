// SPDX-License-Identifier: Apache-2.0
// TunePeer: two machines measure the network between them, each by `rondo tune`. One listens
// (--listen), the other one connects to it (--peer).
//
// Both need the same RONDO_SECRET. Both then start the same runs, with half of the ranks on each
// machine, and exchange the outcome of each run. Guarantees: a process without the secret can
// neither read nor send anything; a run that fails ends both sides with the reason; every wait is
// bounded. Cost: one round trip per run.
//
//   RONDO_TRY(auto peer, TunePeer::meet({.host = "10.0.0.1", .port = 29519}, &sizes, &only));
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "bench/cli/tune_run.h"
#include "transport/bootstrap/session.h"

namespace rondo::cli {

struct TuneAddress {
  std::string host{};  // empty: this machine listens
  std::uint16_t port = 29519;
  bool listens() const { return host.empty(); }
};
// "HOST", "HOST:PORT", "[v6]:PORT".
Result<TuneAddress> parse_tune_address(const std::string& text);

class TunePeer {
 public:
  // `sizes` and `only` of the listening machine apply to both: the other one's are overwritten.
  // Waits up to ten minutes.
  static Result<std::unique_ptr<TunePeer>> meet(const TuneAddress& place, TuneSizes* sizes,
                                                std::string* only);

  const std::string& name() const { return name_; }  // of the other machine
  // Shell assignments for the ranks of a run on both machines.
  std::string variables(int ranks) const;
  // After a run: exchanges the outcomes. Returns the one here, or else the other machine's error.
  Status both(const Status& here);

 private:
  TunePeer() = default;

  std::unique_ptr<bootstrap::Session> session_;
  std::string name_, master_;
  std::uint16_t port_ = 0;
};

}  // namespace rondo::cli
