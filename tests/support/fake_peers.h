// SPDX-License-Identifier: Apache-2.0
// FakePeers: a communicator state of rank 0, and the shared words of ranks 1 and 2 of its host.
// The test writes these words itself, in the place of the peers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "collectives/communicator/communicator_state.h"
#include "transport/shm/host_segment.h"

namespace rondo::test {

class FakePeers : public testing::Test {
 protected:
  static constexpr int kRanks = 3;

  FakePeers() {
    const shm::SegmentLayout layout({kRanks, 4096, 4096, 2});
    words_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, layout.staging)));
    std::fill_n(words_.get(), layout.staging, std::byte{0});
    state_.members.size = state_.host.size = kRanks;
    state_.timeout_seconds.store(600);
    const std::vector<std::uint64_t> one_host(kRanks, 7);
    state_.members.shape = shape_of_hosts(one_host);
    for (int r = 0; r < kRanks; ++r) {
      state_.members.local_ranks.push_back(r);
      state_.members.ranks.emplace_back().rank = r;
      state_.host.peers.push_back(layout.words_of(words_.get(), r));
    }
    state_.host.sequence = 1;
  }

  PeerPort& port(int rank) { return state_.host.peers[rank]; }
  ProgressLine& progress(int rank) { return *port(rank).progress; }

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> words_;
  CommunicatorState state_;
};

}  // namespace rondo::test
