// SPDX-License-Identifier: Apache-2.0
// Gather: collects a JobView from this process, from the processes of its host, or from all hosts,
// as a Task of the status server.
//
// It asks the processes of its host over their status sockets, and one process of each other host,
// which asks those of its own. A process that is seen to be stopped is not asked: others of its
// host show its ranks. If the asked process of a host is silent for kNextAfter, the host's next one
// is asked too. Guarantees: over by the deadline; never waits. Cost: a connection to each process
// of the host and to one of each other host, kMaxAtOnce at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/status/own_ranks.h"
#include "transport/status/visitor.h"

namespace rondo {

class Gather final : public status::Task {
 public:
  enum Scope { kOwn, kHost, kJob };
  using Write = std::function<std::string(const JobView&)>;
  static constexpr std::size_t kMaxAtOnce = 64;
  static constexpr std::chrono::milliseconds kNextAfter{400};
  static constexpr std::chrono::milliseconds kLocalLimit{500};

  // timeout_seconds: of the whole; 0: one minute.
  Gather(const OwnRanks& ranks, const status::UserFolder* folder, Scope scope,
         double timeout_seconds, Write write);

  void add_entries(std::vector<pollfd>* entries) const override;
  net::Clock::time_point next() const override;
  bool step(std::string* out) override;

 private:
  // The processes of one host that may answer for it, or one process of this host.
  struct Source {
    std::vector<PeerProcessAddress> candidates{};
    std::vector<status::Question> asked{};  // of the first candidates, in order
    net::Clock::time_point next_at{};
    bool is_over = false;
    Error why{StatusCode::kTimeout, "no answer in time"};  // of the last candidate
  };
  void ask_next(Source& source);
  void step(Source& source);
  void give_up(Source& source);
  std::size_t under_way() const;

  const OwnRanks& ranks_;
  const status::UserFolder* folder_;
  const Write write_;
  const net::Clock::time_point began_ = net::Clock::now();
  net::Clock::time_point deadline_;
  JobView view_;
  bool completes_ = false;  // the view covers all hosts
  std::vector<Source> sources_;
};

}  // namespace rondo
