// SPDX-License-Identifier: Apache-2.0
// What the creator of a communicator asks for. CommOptions: how it works; defaults are those of the
// environment table (base/env_table.cc). CreateRequest: who its ranks are and how they meet.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "topology/graph/graph.h"
#include "transport/bootstrap/join_request.h"

namespace rondo {

struct CommOptions {
  double timeout_seconds = 600;      // without progress until a call fails; RONDO_TIMEOUT
  double init_timeout_seconds = 60;  // RONDO_INIT_TIMEOUT
  bool reproducible = false;         // RONDO_REPRODUCIBLE
  std::string name;                  // for logs
  std::string network;               // requested between hosts; "": none; NCCL_NET
  int device = -1;                   // the rank's CUDA device; -1: the host
  int min_ctas = 1;                  // per rank, for kernels that wait for each other
  int max_ctas = 64;                 // the same; below 64 it also limits other kernels
  bool copy_engines = false;         // calls that only copy use cudaMemcpyAsync
  bool mixes_graphs = true;          // CUDA graphs may run beside each other and other calls
  bool takes_turns = false;          // its kernels and others' run one by one (launchOrderImplicit)
  double kernel_seconds = 0;         // without progress until a waiting kernel fails; 0: never
  int threads = 0;                   // that share copies and sums; 0: by RONDO_THREADS
  bool is_internal = false;          // not the program's: profiler plugins do not see it
  static CommOptions from_environment();
};

inline CommOptions CommOptions::from_environment() {
  CommOptions options;
  options.timeout_seconds = env::get_seconds("RONDO_TIMEOUT");
  options.init_timeout_seconds = env::get_seconds("RONDO_INIT_TIMEOUT");
  options.reproducible = env::get_bool("RONDO_REPRODUCIBLE");
  options.network = env::get_string("NCCL_NET");
  return options;
}

struct CreateRequest {
  int rank = 0;
  int size = 1;
  bootstrap::UniqueId id{};
  std::vector<bootstrap::UniqueId> more_ids;   // ncclCommInitRankScalable
  std::shared_ptr<bootstrap::Listener> serve;  // set on a child's leader: it serves `id`
  CommOptions options;
  std::function<bool()> aborted;                    // polled while joining; may be empty
  std::shared_ptr<const topology::Graph> graph;     // this host's, for a child; null: read it
  std::optional<bootstrap::Survivors> survivors{};  // of a shrink
};

}  // namespace rondo
