// SPDX-License-Identifier: Apache-2.0
// Gather: collects a JobView from this process, from the processes of its host, or from all hosts,
// as a Task of the status server.
//
// It asks the processes of its host over their status sockets, and one process of each other host,
// which asks those of its own. A process that is seen to be stopped is not asked: others of its
// host show its ranks. If the asked process of a host is silent for kNextAfter, the host's next one
// is asked too. While a host stays silent, all others are asked again every kRoundAfter, so that
// what is known of them is of one moment, and processes that have become known since are asked,
// too; it ends once others wait long for that host's ranks, and all ranks are known.
// A busy machine answers late, and is not silent: the time counts from the last sign that one of
// the host's processes runs (Question::alive_at()), and is kTimesSlower than the slowest answer of
// the others, or than the longest delay of this thread, between kSilentAfter and kLongestSilence.
// Guarantees: over by the deadline; never waits; a host that does not answer is not waited for
// longer if that is why the job hangs. Cost: a connection to each process of the host and to one of
// each other host, kMaxAtOnce at a time.
#pragma once

#include <functional>
#include <memory>
#include <set>
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
  static constexpr std::chrono::milliseconds kNextAfter{200};
  static constexpr std::chrono::milliseconds kRoundAfter{250};
  static constexpr std::chrono::milliseconds kSilentAfter{800}, kLongestSilence{2000};
  static constexpr int kTimesSlower = 4;
  static constexpr std::chrono::milliseconds kLocalLimit{500};

  struct Query {
    Scope scope = kJob;
    double timeout_seconds = 5;  // of the whole; 0: one minute
    // What the others are asked: "VIEW OWN" in a process, "VIEW HOST" for a host.
    std::string verb{"VIEW"}, argument{};
  };
  Gather(const OwnRanks& ranks, const status::UserFolder* folder, Query query, Write write);

  void add_entries(std::vector<pollfd>* entries) const override;
  net::Clock::time_point next() const override;
  bool step(std::string* out) override;

 private:
  // The processes of one host that may answer for it, or one process of this host.
  struct Source {
    std::vector<PeerProcessAddress> candidates{};
    std::vector<status::Question> asked{};  // of the first candidates, in order
    net::Clock::time_point next_at{};
    net::Clock::time_point began{};  // of the first question
    bool is_over = false, has_answered = false;
    Error why{StatusCode::kTimeout, "no answer in time"};  // of the last candidate
  };
  void find_sources();
  void ask_next(Source& source);
  void step(Source& source);
  void step_all();
  void give_up(Source& source);
  std::size_t under_way() const;
  bool only_silent_left() const;
  bool is_silent(const Source& source, net::Clock::time_point now) const;
  std::set<std::uint64_t> silent_hosts() const;
  bool explains_hang() const;
  bool are_all_over() const;
  bool may_find_answer() const;
  void begin_round();
  bool step_until_over(std::string* out);

  const OwnRanks& ranks_;
  const status::UserFolder* folder_;
  const Query query_;
  const Write write_;
  const net::Clock::time_point began_ = net::Clock::now();
  net::Clock::time_point deadline_;
  JobView view_;
  net::Clock::time_point next_round_ = began_ + kRoundAfter;
  // When step() was due, and the longest that an answer, or this thread, was late.
  net::Clock::time_point due_ = net::Clock::time_point::max();
  net::Clock::duration slowest_{};
  std::vector<Source> sources_;
};

}  // namespace rondo
