// TunerPlugin: a library with NCCL's tuner interface, called the same whatever its version is; and
// Tuner, what one communicator's rank has of it.
//
// Guarantees: the newest version that the library exports is used, from 6 down to 2. A library is
// loaded once a process and stays. Its functions are called by one thread at a time. Errors name
// the plugin, its file, the function and the result. Cost: an indirect call and a mutex.
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
  // The file: a path, or a name for the loader's search.
  static Result<const TunerPlugin*> load(const std::string& file);

  int version() const { return version_; }
  // "plugin 'X' (libnccl-tuner-x.so, ncclTunerPlugin_v5)"
  const std::string& text() const { return text_; }
  // The same on all hosts that have this plugin, wherever it lies.
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

// By NCCL_TUNER_PLUGIN; where it is not set, libnccl-tuner.so, else the network plugin's library
// (NCCL_NET_PLUGIN), which may be both. Null: there is none. An error: the one that is asked for
// cannot be used.
Result<const TunerPlugin*> find_tuner();

// What a plugin is told when it starts.
struct About {
  std::uint64_t communicator = 0;  // alike on its ranks
  int ranks = 1, hosts = 1;
  int min_ranks_of_host = 1, max_ranks_of_host = 1;
};

struct Answer {
  int result = 0;    // not 0: the plugin failed
  int channels = 0;  // 0: not said
};

// Ends with the communicator.
class Tuner {
 public:
  static Result<std::unique_ptr<Tuner>> open(const TunerPlugin& plugin, const About& about);
  ~Tuner();
  Tuner(const Tuner&) = delete;
  Tuner& operator=(const Tuner&) = delete;

  const TunerPlugin& plugin() const { return plugin_; }
  // Changes costs to what the plugin says. What a plugin of version 2 chooses costs 0 then.
  Answer ask(Collective which, std::uint64_t bytes, abi::Costs& costs) const;
  Error failure_to_answer(int result) const { return plugin_.failure("getCollInfo", result); }

 private:
  Tuner(const TunerPlugin& plugin, void* context) : plugin_(plugin), context_(context) {}

  const TunerPlugin& plugin_;
  void* const context_;
};

}  // namespace rondo::tuner
