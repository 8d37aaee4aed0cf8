// SPDX-License-Identifier: Apache-2.0
// Monitor: the events of NCCL's RAS monitor mode, one after another, without end: processes that
// joined the job or died (lifecycle), and that stopped or started again to answer (trace).
//
// It looks at the job every kPeriod while a client listens. There is no snapshot at the start.
// Guarantees: never waits; each change is reported once. Cost: a query of the job each kPeriod.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/status/gather.h"

namespace rondo {

struct MonitorGroups {
  bool lifecycle = false, trace = false;

  // "lifecycle,trace", "all", "": lifecycle. Empty `unknown`: all words are known.
  static MonitorGroups parse(std::string_view text, std::string* unknown);
};

class Monitor final : public status::Task {
 public:
  using Start = std::function<std::unique_ptr<Gather>(Gather::Write write)>;
  static constexpr std::chrono::seconds kPeriod{1};

  Monitor(MonitorGroups groups, bool json, Start start)
      : groups_(groups), json_(json), start_(std::move(start)) {}

  void add_entries(std::vector<pollfd>* entries) const override;
  net::Clock::time_point next() const override;
  bool step(std::string* out) override;
  bool is_endless() const override { return true; }

 private:
  enum Presence { kAnswers, kSilent, kDead };
  struct Peer {
    std::string host;
    int pid = 0;
    std::vector<int> devices;
    Presence presence = kAnswers;
  };
  using Peers = std::map<std::uint64_t, Peer>;  // by process
  static Peers peers_of(const JobView& view);
  void compare(Peers now, std::string* out);
  void report(bool lifecycle, std::string_view event, const Peer& peer, std::string_view details,
              std::string* out) const;

  const MonitorGroups groups_;
  const bool json_;
  const Start start_;
  std::unique_ptr<Gather> gather_;  // under way
  Peers found_, known_;
  bool has_known_ = false;
  net::Clock::time_point next_look_{};
};

}  // namespace rondo
