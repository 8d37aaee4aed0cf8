// SPDX-License-Identifier: Apache-2.0
// ProfilerPlugin: a library with NCCL's profiler interface, of any version. Profiler: its instance
// for one rank of a communicator.
//
// Guarantees: uses the newest version that the library exports, from 6 down to 1. A library is
// loaded once per process and never unloaded. Its functions may be called by several threads at a
// time, as NCCL does. What they return changes no call: an error costs one WARN line per process.
// A crash in init is such an error, later ones end the process. A plugin that throws gets no more
// events, and the job goes on. Cost: an indirect call per event.
//
//   if (auto profiler = open_profiler(about, false)) handle = profiler->start(event);
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "collectives/profiler/abi.h"
#include "collectives/profiler/describe.h"

namespace rondo::profiler {

class ProfilerPlugin {
 public:
  // file: a path, a library name that the loader searches for, or STATIC_PLUGIN.
  static Result<const ProfilerPlugin*> load(const std::string& file);

  // Of every plugin that this process has loaded: events that it gets from now on, as bits of
  // abi::Kind. Later communicators ask the plugin's init again.
  static void set_masks(int mask);

  int version() const { return version_.number; }
  bool is_watch() const { return std::string_view(table_.name) == abi::kWatchName; }
  // "plugin 'X' (libnccl-profiler-x.so, ncclProfiler_v5)"
  const std::string& text() const { return text_; }

  ProfilerPlugin(const abi::ProfilerTable& table, const Version& version, const std::string& file);

 private:
  friend class Profiler;
  void complain(const char* function, int result) const;
  // Calls it, unless the plugin has thrown before; true if it gave 0.
  template <class Function>
  bool call(const char* name, const Function& function) const noexcept;

  const abi::ProfilerTable& table_;
  const Version& version_;
  const std::string text_;
  mutable int mask_ = 0;  // the plugin's, which may write it at any time
  mutable std::atomic<bool> complained_{false};
  mutable std::atomic<bool> has_thrown_{false};
};

// Loads NCCL_PROFILER_PLUGIN. If it is not set: for ranks on GPUs libnccl-profiler.so, else the
// network plugin's library (NCCL_NET_PLUGIN), which may also be a profiler; for others none. Null:
// there is none. An error: the plugin that NCCL_PROFILER_PLUGIN names cannot be used.
Result<const ProfilerPlugin*> find_profiler(bool on_device);

// Any thread. Finalized with the last reference.
class Profiler {
 public:
  static Result<std::shared_ptr<Profiler>> open(const ProfilerPlugin& plugin, const About& about);
  ~Profiler();  // NOLINT(bugprone-exception-escape): as ProfilerPlugin::call()
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // True if the plugin asks for one of these kinds now.
  bool wants(std::uint64_t kinds) const {
    const auto mask = std::atomic_ref<int>(plugin_.mask_).load(std::memory_order_relaxed);
    return (static_cast<unsigned>(mask) & kinds) != 0 &&
           !plugin_.has_thrown_.load(std::memory_order_relaxed);
  }
  // The event's handle. Null: the interface's version does not have the kind, or the plugin keeps
  // no such event.
  void* start(Event event) const;
  void stop(void* handle) const;
  void record(void* handle, abi::State state) const;

 private:
  Profiler(const ProfilerPlugin& plugin, const About& about);

  const ProfilerPlugin& plugin_;
  const std::string name_;  // the plugin may keep its address
  About about_;
  void* context_ = nullptr;
  const std::uint32_t made_in_;  // fork_generation()
};

// The rank's profiler: null if there is no plugin, or if it cannot be used, which is reported by
// one WARN line per process.
std::shared_ptr<Profiler> open_profiler(const About& about, bool on_device);

}  // namespace rondo::profiler
