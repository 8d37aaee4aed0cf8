// SPDX-License-Identifier: Apache-2.0
// Rendezvous: the server's view of the ranks that meet under one id: which have joined, which are
// connected, and the error, if any.
//
// While ranks are missing, those that have joined receive their numbers (Roll), a moment after the
// last one has joined. Once all ranks have joined, each receives the address of its parent in the
// tree. Once all have reported that they are connected, the rendezvous has finished. An error (a
// rank that joins twice, is out of range, has another size or build, or leaves; or the deadline) is
// sent to all ranks, also to those that join later, until the deadline. For a process that ends
// earlier see owes_verdict(). A meeting of survivors (session.h) ends when all who came have the
// error; those that join later wait for the next one. So do those whose list of survivors differs:
// it may be newer. If the others do not find that out within two seconds, it is the error.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/auth/acceptor.h"
#include "transport/bootstrap/framed_link.h"
#include "transport/bootstrap/messages.h"
#include "transport/socket/socket.h"

namespace rondo::bootstrap {

// "rank 3", "ranks 3, 5", "ranks 0, 1, ... and 100 more"
std::string name_ranks(std::span<const int> ranks);

// A rank that has proved itself.
struct Arrival {
  FramedLink link;
  net::SocketAddress from;
  auth::Build build;
  Join join;
  // Nullopt if the payload is not a Join.
  static std::optional<Arrival> from_proven(auth::Arrival proven);
};

class Rendezvous {
 public:
  // members: of survivors (session.h), whose id serves one meeting after the other; else empty.
  explicit Rendezvous(const auth::Key& key, std::vector<int> members = {})
      : key_(key), names_(std::move(members)) {}

  const auth::Key& key() const { return key_; }
  // False once all ranks have joined: another rendezvous of the same id can follow (NCCL_COMM_ID).
  // Survivors who come after a failure wait for the next meeting, too, but once rank 0, who will
  // begin it, has the error.
  bool open() const {
    return !full_ && !followed_ && (names_.empty() || !error_ || !rank_zero_came());
  }
  // Its rank 0 has begun another meeting. Returns those who came for it.
  std::vector<Arrival> follow();
  bool empty() const { return joined_ == 0; }
  bool failed_before_rank_zero() const { return !names_.empty() && error_ && !rank_zero_came(); }
  bool finished() const { return finished_; }
  // It has failed, and some ranks have not joined to receive the error, or have not left after it.
  bool owes_verdict() const;

  void admit(Arrival arrival);
  // A visitor that knows the id left when it was challenged: it may hold another RONDO_SECRET.
  void note_doubt() { doubted_ = true; }
  // Its missing ranks cannot join. The others get the error; as they leave, they free descriptors.
  void refuse(const Error& error);
  void collect(std::vector<pollfd>& entries) const;
  std::size_t entries() const { return guests_.size(); }
  void serve(std::span<const pollfd> ready);
  net::Clock::time_point next_deadline() const {
    return std::min({deadline_, roll_at_, early_until_});
  }

 private:
  struct Guest {
    Arrival arrival;
    bool member = false;     // counted in members_
    bool connected = false;  // to its neighbours
    bool gone = false;
  };

  std::optional<Error> objection(const Arrival& arrival) const;
  void note_coming(const Join& join);
  void receive_from(Guest& guest);
  void seat_all();
  void send_roll();
  void fail_all(const Error& error);
  std::vector<int> absent() const;
  bool rank_zero_came() const { return !came_.empty() && came_[0]; }  // rank 0 has come
  int name_of(int rank) const;  // its number in the parent, if known
  bool all_gone() const;
  bool has_other_list(const Join& join) const;
  void drop_early_leavers();
  void refuse_other_lists();
  void end();  // at the deadline

  const auth::Key key_;
  const std::vector<int> names_;  // of survivors
  bool followed_ = false;
  bool over_ = false;
  std::optional<Ended> ended_;
  std::vector<Arrival> early_;  // whose lists differ
  net::Clock::time_point early_until_ = net::Clock::time_point::max();
  std::vector<std::unique_ptr<Guest>> guests_;
  std::vector<Guest*> members_;  // by rank
  std::vector<bool> came_;       // by rank; includes refused ranks
  int joined_ = 0;
  int connected_ = 0;
  bool full_ = false;
  bool finished_ = false;
  bool doubted_ = false;
  std::optional<Error> error_;
  std::chrono::nanoseconds shortest_timeout_{};
  net::Clock::time_point deadline_ = net::Clock::time_point::max();
  net::Clock::time_point roll_at_ = net::Clock::time_point::max();
};

}  // namespace rondo::bootstrap
