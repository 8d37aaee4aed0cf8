// SPDX-License-Identifier: Apache-2.0
// TunerPlugin: a library with NCCL's tuner interface, of any version. Tuner: its instance for one
// rank of a communicator.
//
// Guarantees: uses the newest version that the library exports, from 6 down to 2. A library is
// loaded once per process and never unloaded. Only one thread at a time calls its functions. Errors
// name the plugin, its file, the function and the result. Cost: an indirect call and a mutex per
// call.
//
//   RONDO_TRY(const TunerPlugin* const plugin, find_tuner());
//   if (plugin != nullptr) RONDO_TRY(auto tuner, Tuner::open(*plugin, about));
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "base/types.h"
#include "collectives/tuner/abi.h"

namespace rondo::tuner {

class TunerPlugin {
 public:
  // file: a path, or a library name that the loader searches for.
  static Result<const TunerPlugin*> load(const std::string& file);

  int version() const { return version_; }
  // "plugin 'X' (libnccl-tuner-x.so, ncclTunerPlugin_v5)"
  const std::string& text() const { return text_; }
  // Equal on all hosts with this plugin, whatever its path.
  std::string identity() const { return name_ + " v" + std::to_string(version_); }

  TunerPlugin(const abi::TunerTable& table, int version, const std::string& file);

 private:
  friend class Tuner;
  Error failure(const char* function, int result) const;

  const abi::TunerTable& table_;
  const int version_;
  const std::string name_, text_;
  mutable std::mutex mutex_;
};

// Loads NCCL_TUNER_PLUGIN. If it is not set: libnccl-tuner.so, else the network plugin's library
// (NCCL_NET_PLUGIN), which may also be a tuner. Null: there is none. An error: the plugin that
// NCCL_TUNER_PLUGIN names cannot be used.
Result<const TunerPlugin*> find_tuner();

// The plugin's arguments at initialisation.
struct About {
  std::uint64_t communicator = 0;  // equal on its ranks
  int ranks = 1, hosts = 1;
  int min_ranks_of_host = 1, max_ranks_of_host = 1;
};

struct Answer {
  int result = 0;    // not 0: the plugin failed
  int channels = 0;  // 0: no choice
};

// Destroyed with the communicator.
class Tuner {
 public:
  static Result<std::unique_ptr<Tuner>> open(const TunerPlugin& plugin, const About& about);
  ~Tuner();
  Tuner(const Tuner&) = delete;
  Tuner& operator=(const Tuner&) = delete;

  const TunerPlugin& plugin() const { return plugin_; }
  // Lets the plugin change `costs`. The choice of a version 2 plugin gets cost 0.
  Answer ask(Collective which, std::uint64_t bytes, abi::Costs& costs) const;
  Error failure_to_answer(int result) const { return plugin_.failure("getCollInfo", result); }

 private:
  Tuner(const TunerPlugin& plugin, void* context) : plugin_(plugin), context_(context) {}

  const TunerPlugin& plugin_;
  void* const context_;
};

}  // namespace rondo::tuner
