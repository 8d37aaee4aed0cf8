// SPDX-License-Identifier: Apache-2.0
#include "collectives/profiler/profiler_plugin.h"

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "base/env.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/process.h"
#include "transport/plugin/library.h"

namespace rondo::profiler {
namespace {

const char* missing_of(const abi::ProfilerTable& table) {
  return table.name == nullptr || *table.name == '\0' ? "name"
         : table.init == nullptr                      ? "init"
         : table.start == nullptr                     ? "startEvent"
         : table.stop == nullptr                      ? "stopEvent"
         : table.record == nullptr                    ? "recordEventState"
         : table.finish == nullptr                    ? "finalize"
                                                      : nullptr;
}

Result<std::unique_ptr<const ProfilerPlugin>> read_library(void* library, const std::string& file) {
  RONDO_TRY(const plugin::Symbol found,
            plugin::newest_symbol(plugin::kProfiler, library, file, kVersions.back().number,
                                  kVersions.front().number));
  const auto& table = *static_cast<const abi::ProfilerTable*>(found.address);
  if (const char* const missing = missing_of(table))
    return fail(StatusCode::kInvalidUsage,
                "ncclProfiler_v{} of the profiler plugin {} has no {}; set NCCL_PROFILER_PLUGIN to "
                "another one, or to none",
                found.version, printable(file), missing);
  const Version& version =
      kVersions[static_cast<std::size_t>(kVersions.front().number - found.version)];
  return std::make_unique<const ProfilerPlugin>(table, version, file);
}

// For a plugin that the user did not request: null if it is absent. An absent one is not searched
// for again.
const ProfilerPlugin* found_by_default(const std::string& file) {
  static std::mutex mutex;
  static auto& absent = *new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (absent.contains(file)) return nullptr;
  const auto found = ProfilerPlugin::load(file);
  if (found.ok()) return *found;
  RONDO_INFO(kInit, "no profiler plugin: {}", found.error().text);
  absent.insert(file);
  return nullptr;
}

struct LoadedPlugins {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const ProfilerPlugin>> by_file;
};
LoadedPlugins& loaded_plugins() {
  static auto& loaded = *new LoadedPlugins;
  return loaded;
}

void warn_once(const Error& error) {
  static std::atomic<bool> warned{false};
  if (!warned.exchange(true)) notice(error.text + "; the job goes on without a profiler");
}

}  // namespace

ProfilerPlugin::ProfilerPlugin(const abi::ProfilerTable& table, const Version& version,
                               const std::string& file)
    : table_(table),
      version_(version),
      text_(fmt::format("plugin '{}' ({}, ncclProfiler_v{})", printable(table.name).substr(0, 64),
                        printable(file), version.number)) {}

Result<const ProfilerPlugin*> ProfilerPlugin::load(const std::string& file) {
  LoadedPlugins& loaded = loaded_plugins();
  std::lock_guard lock(loaded.mutex);
  auto& known = loaded.by_file[file];
  if (known) return known.get();
  RONDO_TRY(void* const library, plugin::open_library(plugin::kProfiler, file));
  auto read = read_library(library, file);
  if (!read.ok()) {
    dlclose(library);
    return read.error();
  }
  known = std::move(read).value();
  RONDO_INFO(kInit, "loaded the profiler {}", known->text());
  return known.get();
}

void ProfilerPlugin::set_masks(int mask) {
  LoadedPlugins& loaded = loaded_plugins();
  std::lock_guard lock(loaded.mutex);
  for (const auto& [file, plugin] : loaded.by_file)
    if (plugin) std::atomic_ref<int>(plugin->mask_).store(mask, std::memory_order_relaxed);
}

void ProfilerPlugin::complain(const char* function, int result) const {
  if (!complained_.exchange(true))
    RONDO_WARN("{}: {}() gave {} ({}); calls go on. Without it: NCCL_PROFILER_PLUGIN=none", text_,
               function, plugin::name_of_result(result), result);
}

// guarded() catches all but the unwinding of a cancelled thread.
template <class Function>  // NOLINTNEXTLINE(bugprone-exception-escape)
bool ProfilerPlugin::call(const char* name, const Function& function) const noexcept {
  if (has_thrown_.load(std::memory_order_relaxed)) return false;
  const auto give_up = [&](const Error& error) {
    if (has_thrown_.exchange(true)) return;
    (void)guarded(name, [&] {
      RONDO_WARN(
          "{} threw in {}; it gets no more events, calls go on. Without it: "
          "NCCL_PROFILER_PLUGIN=none",
          text_, error.text);
      return ok_status();
    }).ok();
  };
  const auto called = guarded(
      name,
      [&]() -> Result<int> {
        const int result = function();
        if (result != 0) complain(name, result);
        return result;
      },
      give_up);
  return called.ok() && *called == 0;
}

Result<const ProfilerPlugin*> find_profiler(bool on_device) {
  const std::string asked = env::get_string("NCCL_PROFILER_PLUGIN");
  if (asked.empty() && !on_device) return nullptr;
  const std::string file = plugin::file_of(plugin::kProfiler, asked);
  if (file.empty()) return nullptr;
  if (!asked.empty()) return ProfilerPlugin::load(file);
  if (const ProfilerPlugin* const own = found_by_default(file)) return own;
  const std::string network = plugin::file_of(plugin::kNetwork, env::get_string("NCCL_NET_PLUGIN"));
  return network.empty() ? nullptr : found_by_default(network);
}

Profiler::Profiler(const ProfilerPlugin& plugin, const About& about)
    : plugin_(plugin),
      name_(about.name == nullptr ? "" : about.name),
      about_(about),
      made_in_(fork_generation()) {
  if (about.name != nullptr) about_.name = name_.c_str();
}

Result<std::shared_ptr<Profiler>> Profiler::open(const ProfilerPlugin& plugin, const About& about) {
  std::shared_ptr<Profiler> made(new Profiler(plugin, about));
  int result = 0, crash = 0;
  const Status returned = guarded("init", [&] {
    crash = plugin::crash_of([&] {
      result =
          plugin.version_.init(plugin.table_.init, &made->context_, &plugin.mask_, made->about_);
    });
    return ok_status();
  });
  if (returned.ok() && result == 0 && crash == 0) return made;
  made->context_ = nullptr;
  if (!returned.ok())
    return fail(StatusCode::kSystemError, "{} threw in {}. Without it: NCCL_PROFILER_PLUGIN=none",
                plugin.text_, returned.error().text);
  if (crash != 0)
    return fail(StatusCode::kSystemError,
                "{}: init() crashed ({}). Without it: NCCL_PROFILER_PLUGIN=none", plugin.text_,
                strsignal(crash));
  return fail(StatusCode::kSystemError,
              "{}: init() gave {} ({}); NCCL_DEBUG=INFO shows what it logs. Without it: "
              "NCCL_PROFILER_PLUGIN=none",
              plugin.text_, plugin::name_of_result(result), result);
}

Profiler::~Profiler() {  // NOLINT(bugprone-exception-escape): as call()
  if (context_ == nullptr || made_in_ != fork_generation()) return;
  plugin_.call("finalize", [&] { return plugin_.table_.finish(context_); });
}

void* Profiler::start(Event event) const {
  if ((plugin_.version_.kinds & event.kind) == 0) return nullptr;
  event.rank = about_.rank;
  event.name = about_.name;
  event.communicator = about_.communicator;
  void* handle = nullptr;
  const auto start = [&] {
    return plugin_.version_.start(plugin_.table_, context_, &handle, event);
  };
  return plugin_.call("startEvent", start) ? handle : nullptr;
}

void Profiler::stop(void* handle) const {
  if (handle == nullptr) return;
  plugin_.call("stopEvent", [&] { return plugin_.table_.stop(handle); });
}

void Profiler::record(void* handle, abi::State state) const {
  if (handle == nullptr) return;
  abi::StateArguments none{};
  plugin_.call("recordEventState", [&] { return plugin_.table_.record(handle, state, &none); });
}

std::shared_ptr<Profiler> open_profiler(const About& about, bool on_device) {
  const auto plugin = find_profiler(on_device);
  if (!plugin.ok()) return warn_once(plugin.error()), nullptr;
  if (*plugin == nullptr) return nullptr;
  if ((*plugin)->is_watch() && env::get_bool("NCCL_RAS_ENABLE")) {
    RONDO_INFO(kInit, "{} is not used: this job answers rondo ps itself", (*plugin)->text());
    return nullptr;
  }
  auto made = Profiler::open(**plugin, about);
  if (!made.ok()) return warn_once(made.error()), nullptr;
  return std::move(*made);
}

}  // namespace rondo::profiler
