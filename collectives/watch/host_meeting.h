// SPDX-License-Identifier: Apache-2.0
// HostMeeting: how the watched processes of several hosts find each other without a folder: at a
// port of the host that NCCL_COMM_ID or MASTER_ADDR names, which all ranks know.
//
// One process of that host listens at the first of kPorts ports (RONDO_WATCH_PORT) that is free.
// Each process with ranks of several hosts reports to it where it answers, and asks for the
// processes that have ranks of the same communicators: five times a second while it learns of new
// ones, every 10 s later. If the one that listens ends or is stopped, another process of its host
// takes the next port. Guarantees: both sides prove a secret (RONDO_SECRET, or what `rondo watch`
// has drawn), which never travels; without one there is no meeting. Nothing waits: the place's name
// is resolved on a thread of its own, which may outlive this object. Nothing that fails costs the
// job more than an INFO line. Only the thread of the status service calls it, after open(). Cost:
// an answer of 200 bytes for each process, once to each other: 50 MB from that host for a job of
// 512 processes.
//
//   auto meeting = HostMeeting::open(addresses);      // null: no place, no secret
//   meeting->update(own_ranks, communicators_that_lack_ranks);
//   meeting->step();
//   if (auto acceptor = meeting->take_acceptor()) ... // this process listens from now on
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/watch/meeting_messages.h"
#include "collectives/watch/watched_process.h"
#include "transport/auth/acceptor.h"
#include "transport/status/question.h"

namespace rondo::watch {

class HostMeeting {
 public:
  static constexpr int kPorts = 4;       // jobs of a host that can meet at a time
  static constexpr int kMaxLookups = 4;  // that hang, of a process
  static constexpr const char* kEndpoint = "watch meeting";

  using Addresses = std::vector<net::SocketAddress>;
  // Of host:port. It may take minutes.
  using Resolve = std::function<Result<Addresses>(const std::string& place)>;
  static Result<Addresses> resolve_place(const std::string& place);

  // own: where this process answers.
  static std::unique_ptr<HostMeeting> open(Addresses own, Resolve resolve = resolve_place);
  // That askers of this process prove, too.
  const auth::Digest& secret() const { return secret_; }

  // Own ranks that other hosts may look for, and the communicators of which not all ranks are
  // known.
  void update(std::set<RankName> ranks, std::set<std::uint64_t> lacking);
  void step();
  // By communicator and rank.
  const std::map<RankName, WatchedProcess>& others() const { return others_; }

  // Once after each start of listening.
  std::unique_ptr<auth::Acceptor> take_acceptor() { return std::move(acceptor_); }
  // To another process, at the port: what it asks for.
  std::string answer(std::string_view request);

 private:
  using Clock = std::chrono::steady_clock;
  struct Report {  // of a process
    std::uint64_t number = 0;
    WatchedProcess process;
  };
  struct Lookup {
    std::mutex mutex;
    std::optional<Result<Addresses>> found;
  };
  HostMeeting(std::string place, const auth::Digest& secret, Addresses own, Resolve resolve);

  void look_up_place();
  bool knows_place();
  void ask();
  void take(const Result<std::string>& answer);
  void listen();
  void note(WatchedProcess process);
  std::vector<WatchedProcess> reports_since(std::uint64_t number,
                                            const std::set<std::uint64_t>& hashes) const;
  void learn(std::vector<WatchedProcess> processes);
  std::chrono::milliseconds pause() const;

  const std::string place_;  // host:port
  const auth::Digest secret_;
  const Addresses own_;
  const Resolve resolve_;
  const std::uint16_t first_port_;
  std::shared_ptr<Lookup> lookup_;  // under way
  Addresses asked_at_;              // without the port
  bool is_here_ = false;

  // The one that listens.
  std::unique_ptr<auth::Acceptor> acceptor_;
  bool listens_ = false;
  std::map<std::uint64_t, Report> reports_;  // by process
  std::uint64_t newest_ = 0;

  // Of all processes.
  std::set<RankName> ranks_;
  std::set<std::uint64_t> lacking_, hashes_;  // hashes_: that the newest question named
  std::map<RankName, WatchedProcess> others_;
  std::optional<status::Question> question_;
  std::uint64_t answered_by_ = 0, answered_to_ = 0;  // process, and its newest number
  int unanswered_ = 0, unchanged_ = 0;               // questions in a row
  Clock::time_point next_{};
};

}  // namespace rondo::watch
