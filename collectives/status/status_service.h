// SPDX-License-Identifier: Apache-2.0
// StatusService: answers what the ranks of this process, of its host and of its job are doing.
//
// One thread per process, from the first communicator to the last; it sleeps in poll until someone
// asks. It listens at RONDO_METRICS for scrapers of metrics (collectives/trace/metrics.h), at a
// Unix socket in the user's folder (transport/status/user_folder.h), at NCCL_RAS_ADDR as NCCL's RAS
// service does, and, in jobs of several hosts, at a port for their processes. All three speak one
// protocol of lines (docs/operate/status.md); its words are a table. Guarantees: a socket that
// cannot be opened is an INFO line, never an error; no query delays a call of a rank. Only this
// user gets answers (transport/status/line_server.h). NCCL_RAS_ENABLE=0: no socket but that of
// metrics, and without metrics no thread. Cost: a thread and about 0.2 ms at the first
// communicator.
//
//   state.status = StatusSeat::take({.rank = 3, ...});
//   state.status->show({.context = &state, ...}); // until the seat is destroyed
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "collectives/status/own_ranks.h"
#include "transport/socket/address.h"

namespace rondo {

// Keeps the service running, for one rank of this process.
class StatusSeat {
 public:
  // null: disabled. Until show(), queries see a rank that joins.
  static std::unique_ptr<StatusSeat> take(JoiningRank rank);
  // For ranks of another library: the Unix socket, whatever NCCL_RAS_ENABLE is, and for clients of
  // RAS the address RONDO_WATCH_RAS, because the port at NCCL_RAS_ADDR is NCCL's. They live as long
  // as the process.
  static std::unique_ptr<StatusSeat> watch(WatchedRanks* watched);
  ~StatusSeat();
  StatusSeat(const StatusSeat&) = delete;
  StatusSeat& operator=(const StatusSeat&) = delete;

  // The port at which this process answers ranks of other hosts, opened at first use; 0: none.
  std::uint16_t port_for_ranks(std::span<const net::SocketAddress> addresses);
  // Serves metrics from now on, if asked and if the first communicator of the process says that its
  // rank is the first one of its host.
  void serve_metrics(bool first_of_host);
  void note(const bootstrap::JoinNews& news);
  // From now on, queries see what the rank does.
  void show(OwnRank rank);
  const OwnRank& shown() const { return *rank_; }  // after show()

 private:
  void show_joining(JoiningRank rank);
  explicit StatusSeat(std::uint32_t generation) : generation_(generation) {}

  const std::uint32_t generation_;  // fork_generation()
  std::unique_ptr<JoiningRank> joining_;
  std::unique_ptr<const OwnRank> rank_;
};

}  // namespace rondo
