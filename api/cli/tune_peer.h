// TunePeer: two machines that measure the network between them together, each by `rondo tune`: one
// listens (--listen), the other one names it (--peer).
//
// They meet by RONDO_SECRET, which both must have; each then begins the same runs, half of the
// ranks on either machine, and tells how they ended. Guarantees: who does not hold the secret
// learns and says nothing; a run that fails ends both with the reason; every wait ends. Cost: a
// round trip a run.
//
//   RONDO_TRY(auto peer, TunePeer::meet({.host = "10.0.0.1", .port = 29519}, &sizes, &only));
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "api/cli/tune_run.h"
#include "base/result.h"
#include "transport/bootstrap/session.h"

namespace rondo::cli {

struct TuneAddress {
  std::string host{};  // empty: this one listens
  std::uint16_t port = 29519;
  bool listens() const { return host.empty(); }
};
// "HOST", "HOST:PORT", "[v6]:PORT".
Result<TuneAddress> parse_tune_address(const std::string& text);

class TunePeer {
 public:
  // What is to be measured is as the listening one says: the other one's are set so. Waits for ten
  // minutes.
  static Result<std::unique_ptr<TunePeer>> meet(const TuneAddress& place, TuneSizes* sizes,
                                                std::string* only);

  const std::string& name() const { return name_; }  // the other one's
  // For the ranks of a run on both machines, as a shell takes them.
  std::string variables(int ranks) const;
  // After a run: its end here, or the other one's error.
  Status both(const Status& here);

 private:
  TunePeer() = default;

  std::unique_ptr<bootstrap::Session> session_;
  std::string name_, master_;
  std::uint16_t port_ = 0;
};

}  // namespace rondo::cli
