// SPDX-License-Identifier: Apache-2.0
// SessionState: the connections of one rank in the tree of a session, and the exchanges over them.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/process.h"
#include "transport/bootstrap/framed_link.h"
#include "transport/bootstrap/join_request.h"
#include "transport/bootstrap/messages.h"
#include "transport/bootstrap/secret.h"

namespace rondo::bootstrap {

struct Neighbour {
  int rank = 0;
  FramedLink link;
  std::deque<net::Frame> inbox;
  bool gone = false;
};

class SessionState {
 public:
  explicit SessionState(const JoinRequest& request)
      : tree{request.rank, request.size},
        timeout(request.timeout),
        aborted(request.aborted),
        names(request.survivors ? request.survivors->members : std::vector<int>()) {}

  Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> mine);

  // Sends the error to all neighbours. Every later call returns it.
  Error fail_session(const Error& error);
  Error give_up(const Error& error);  // the same; the error sent to others names this rank
  Status standing();
  // The number of a rank in error texts.
  int name_of(int rank) const {
    return names.empty() ? rank : names[static_cast<std::size_t>(rank)];
  }

  const Tree tree;
  std::chrono::nanoseconds timeout;
  const std::function<bool()> aborted;
  const std::vector<int> names;  // of survivors; else empty
  Secret secret;
  std::vector<net::SocketAddress> rendezvous_at;
  std::vector<std::unique_ptr<Neighbour>> neighbours;  // children by rank, then the parent

 private:
  using Table = std::vector<std::vector<std::byte>>;
  Error fail_session(const Error& error, const Error& reported);
  Result<Table> gather_round(std::span<const std::byte> mine);
  // Moves arrived frames to the inboxes, or waits. `needed`: a neighbour that leaves is an error.
  Status pump(const net::Deadline& deadline, bool needed);
  Result<bool> drain(Neighbour& from, bool needed);  // true: its inbox has grown
  Result<Bytes> take(Neighbour& from, Message type);
  Status flush_all(const net::Deadline& deadline);
  Result<Table> table_of(ByteSpan result) const;
  Neighbour* parent() { return tree.root() ? nullptr : neighbours.back().get(); }
  std::vector<int> silent() const;

  std::uint32_t round_ = 0;
  std::pair<std::size_t, std::size_t> due_;  // range of neighbours whose message is due
  const std::uint32_t generation_ = fork_generation();
  std::optional<Error> fault_;
};

}  // namespace rondo::bootstrap
