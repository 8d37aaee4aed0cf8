// SPDX-License-Identifier: Apache-2.0
// RemoteLists: which ranks the survivors on other hosts are about to meet.
//
// A rank shows the list of survivors that it meets (shm::ActivityLine::survivors). Ranks of its
// host read it there; this class asks a process of each other host by its status service, again
// and again, each time another one of the survivors there, so that a stopped process costs one
// question. Guarantees: no call waits; only the answers of processes that prove the
// communicator's secret count; a host that does not answer shows no list. Without the service
// (NCCL_RAS_ENABLE=0) nothing is known. Cost: a connection to each of at most 16 hosts every
// quarter of a second, while a rank calls step().
//
//   RemoteLists lists(state, survivors);
//   lists.step();
//   if (lists.of(3) != 0 && lists.of(3) != own_digest) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "collectives/communicator/communicator_state.h"
#include "collectives/status/job_view.h"
#include "transport/status/question.h"

namespace rondo {

class RemoteLists {
 public:
  RemoteLists(const CommunicatorState& state, const std::vector<int>& survivors);

  void step();
  // The digest of the list that the rank showed when its host was asked last; 0: none, or unknown.
  std::uint64_t of(int rank) const;

 private:
  struct Host {
    std::vector<int> ranks;  // survivors there
    std::size_t turn = 0;    // index of the next one to ask
    net::Clock::time_point next{};
    std::optional<status::Question> asked{};
  };
  void step(Host& host, net::Clock::time_point now);
  void note(const Host& host, const JobView& view);

  const CommunicatorState& state_;
  std::vector<Host> hosts_;
  std::map<int, std::uint64_t> shown_;  // by rank
};

}  // namespace rondo
