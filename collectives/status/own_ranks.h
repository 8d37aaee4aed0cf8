// SPDX-License-Identifier: Apache-2.0
// OwnRanks: the ranks of this process's communicators, as status queries see them, and the
// processes that can answer for the other ranks of the same communicators.
//
// Thread-safe. Guarantees: a rank's state is not read after remove() has returned. Cost: add() and
// remove() take a mutex; a query reads the shared memory of each communicator under it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/rank/rank_context.h"
#include "collectives/status/job_view.h"
#include "collectives/status/link_meter.h"
#include "transport/auth/acceptor.h"
#include "transport/auth/handshake.h"
#include "transport/bootstrap/session.h"
#include "transport/status/question.h"
#include "transport/status/user_folder.h"

namespace rondo {

// A rank of this process. All its pointers stay valid until it is removed.
struct OwnRank {
  const RankContext* context = nullptr;
  std::string name{};                  // of its communicator
  auth::Digest secret{};               // of questions between its hosts
  std::vector<std::uint16_t> ports{};  // by rank: where its process answers ranks; empty: one host
  std::vector<int> devices{};          // by rank; empty: no rank has one

  // How a rank of another host is asked; no address: it cannot be.
  status::Question::Rank question_to(int rank) const;
};

// A process that has ranks in this process's communicators.
struct PeerProcessAddress {
  status::SocketName name;
  std::string text;        // "process 71 on node2"
  std::uint64_t host = 0;  // equal in processes of one host
  bool same_host = false;
  status::Question::Rank rank;  // on another host: how to ask it
};

// A rank of this process that joins the others in ncclCommInitRank.
struct JoiningRank {
  int rank = 0, size = 1;
  std::string name{};
  std::int64_t began_ns = 0;  // set by StatusSeat
  bootstrap::JoinNews news{};
};

// The ranks of this process in communicators of another library, and those of other processes of
// its host that it knows (collectives/watch). The status service calls it on its thread.
class WatchedRanks {
 public:
  virtual ~WatchedRanks() = default;
  virtual void add_to(JobView* view) const = 0;
  virtual void add_peers(std::vector<PeerProcessAddress>* peers) const = 0;
  // Its known ranks of these hosts, as silent, that the view lacks.
  virtual void add_silent(const std::set<std::uint64_t>& hosts, JobView* view) const = 0;
  // That askers of other hosts prove.
  virtual std::vector<std::pair<auth::Tag, auth::Digest>> secrets() const = 0;
  // Looks after its ranks, every kLookEvery.
  virtual void look() = 0;
  // This process serves the metrics of its host.
  virtual bool serves_metrics() const = 0;
  // Where processes of other hosts meet, once after this process has begun to listen there; and
  // the answer to one of them.
  virtual std::unique_ptr<auth::Acceptor> take_acceptor() = 0;
  virtual std::string meet(std::string_view request) = 0;
  static constexpr std::chrono::milliseconds kLookEvery{100};
};

class OwnRanks {
 public:
  // They live as long as the process.
  void watch(WatchedRanks* watched) { watched_ = watched; }
  WatchedRanks* watched() const { return watched_; }
  void add(const JoiningRank* rank);
  void remove(const JoiningRank* rank);
  void note(JoiningRank* rank, const bootstrap::JoinNews& news);
  void add(const OwnRank* rank);
  void remove(const OwnRank* rank);

  // What this process knows of all ranks of its host.
  JobView view() const;
  // All other processes, those of this host first. `without`: processes that cannot answer are left
  // out: they have ended or are stopped, by this view.
  std::vector<PeerProcessAddress> peers(const JobView& without) const;
  // Adds the ranks of this process's communicators on hosts that gave no answer, as silent, unless
  // the view has them. Others that it lacks are unknown: a process learns of them at any time, and
  // one that has answered for its host may not know all ranks of it yet.
  void add_silent(const std::set<std::uint64_t>& hosts, JobView* view) const;
  std::vector<std::pair<auth::Tag, auth::Digest>> secrets() const;

 private:
  std::vector<LinkView> links() const;  // to other hosts of its communicators
  LinkMeter::Rails rails() const;

  std::atomic<WatchedRanks*> watched_{nullptr};
  mutable std::mutex mutex_;
  mutable LinkMeter meter_;
  std::vector<const OwnRank*> ranks_;
  std::vector<const JoiningRank*> joining_;
};

// Equal on all ranks of a communicator, never 0, and of no use to join it.
std::uint64_t status_hash(const auth::Digest& secret);

}  // namespace rondo
