// SPDX-License-Identifier: Apache-2.0
// The tables of functions of a profiler plugin for NCCL, which makes its jobs visible to rondo ps
// and rondo trace: one for each version of the interface, 1 to 7. librondo-watch.so (plugin.c)
// shows them to NCCL. The functions behind them are those of collectives/watch/events.h, which
// throw nothing.
#include <unistd.h>

#include <algorithm>
#include <new>

#include "collectives/watch/events.h"
#include "collectives/watch/next_plugin.h"

namespace rondo::watch {
namespace {

namespace abi = profiler::abi;

// A rank's context where another plugin follows: NCCL gets its address. It lives as long as the
// process, because events may come late.
struct BothContexts {
  void *own = nullptr, *next = nullptr;
};

template <class Descriptor>
class Plugin {
 public:
  static int init(const InitCall& call, const auto& init_next) {
    int result = watch::init(call);
    NextPlugin* const next = NextPlugin::of_version(call.version);
    if (next == nullptr || call.context == nullptr || call.mask == nullptr) return result;
    static BothContexts neither;
    auto* const both = new (std::nothrow) BothContexts{*call.context, nullptr};
    *call.context = both != nullptr ? both : &neither;
    if (both == nullptr) return result;
    // What it returns is its own matter: the job is watched.
    if (init_next(next->table().init, &both->next, next->mask()) != 0) both->next = nullptr;
    std::atomic_ref<int>(*call.mask)
        .fetch_or(both->next == nullptr ? 0 : std::atomic_ref<int>(*next->mask()).load());
    return result;
  }

  template <int kVersion>
  static int start(void* context, void** handle, void* event) {
    auto* const descriptor = static_cast<Descriptor*>(event);
    NextPlugin* const next = NextPlugin::loaded();
    if (next == nullptr) return start_event(context, handle, descriptor);
    const auto& both = *static_cast<const BothContexts*>(context);
    const Parents parents(*descriptor, *next);
    parents.set(&NextPlugin::Pair::own);
    NextPlugin::Pair made;
    start_event(both.own, &made.own, descriptor);
    parents.set(&NextPlugin::Pair::next);
    if (both.next != nullptr && next->wants(descriptor->kind))
      next->table().start(both.next, &made.next, descriptor);
    *handle = next->join(made);
    return 0;
  }

  static int stop(void* handle) {
    NextPlugin* const next = NextPlugin::loaded();
    if (next == nullptr) return stop_event(handle);
    const NextPlugin::Pair pair = next->split(handle);
    stop_event(pair.own);
    if (pair.next != nullptr) next->table().stop(pair.next);
    return 0;
  }

  static int record(void* handle, int state, void* arguments) {
    NextPlugin* const next = NextPlugin::loaded();
    if (next == nullptr) return record_state(handle, state, arguments);
    const NextPlugin::Pair pair = next->split(handle);
    record_state(pair.own, state, arguments);
    if (pair.next != nullptr) next->table().record(pair.next, state, arguments);
    return 0;
  }

  static int finish(void* context) {
    NextPlugin* const next = NextPlugin::loaded();
    if (next == nullptr) return watch::finish(context);
    const auto& both = *static_cast<const BothContexts*>(context);
    if (both.next != nullptr) next->table().finish(both.next);
    return watch::finish(both.own);
  }

 private:
  // The handles in a descriptor, each of which stands for two.
  class Parents {
   public:
    Parents(Descriptor& event, const NextPlugin& next) : event_(event) {
      const bool is_own = event.kind != abi::kProxyOp || event.proxy_op.pid == getpid();
      if (is_own) parent_ = next.split(event.parent);
      if constexpr (requires { event.coll.group; }) {
        if (event.kind == abi::kColl) group_ = next.split(event.coll.group);
        if (event.kind == abi::kP2p) group_ = next.split(event.p2p.group);
      }
    }
    void set(void* NextPlugin::Pair::*which) const {
      event_.parent = parent_.*which;
      if constexpr (requires { event_.coll.group; }) {
        if (event_.kind == abi::kColl) event_.coll.group = group_.*which;
        if (event_.kind == abi::kP2p) event_.p2p.group = group_.*which;
      }
    }

   private:
    Descriptor& event_;
    NextPlugin::Pair parent_, group_;
  };
};

template <int kVersion, class Descriptor>
int init_1(void** context, int* mask) {
  return Plugin<Descriptor>::init({.version = kVersion, .context = context, .mask = mask},
                                  [](abi::Any init, void** next_context, int* next_mask) {
                                    return reinterpret_cast<abi::Init1>(init)(next_context,
                                                                              next_mask);
                                  });
}

int init_4(void** context, int* mask, const char* name, std::uint64_t communicator, int hosts,
           int ranks, int rank, plugin::Logger logger) {
  return Plugin<abi::Descriptor4>::init({4, context, mask, communicator, name, hosts, ranks, rank},
                                        [&](abi::Any init, void** next_context, int* next_mask) {
                                          return reinterpret_cast<abi::Init4>(init)(
                                              next_context, next_mask, name, communicator,
                                              std::max(hosts, 1), ranks, rank, logger);
                                        });
}

template <int kVersion>
int init_5(void** context, std::uint64_t communicator, int* mask, const char* name, int hosts,
           int ranks, int rank, plugin::Logger logger) {
  return Plugin<abi::Descriptor5>::init(
      {kVersion, context, mask, communicator, name, hosts, ranks, rank},
      [&](abi::Any init, void** next_context, int* next_mask) {
        return reinterpret_cast<abi::Init5>(init)(next_context, communicator, next_mask, name,
                                                  std::max(hosts, 1), ranks, rank, logger);
      });
}

using Own1 = Plugin<abi::Descriptor1>;
using Own2 = Plugin<abi::Descriptor2>;
using Own3 = Plugin<abi::Descriptor3>;
using Own4 = Plugin<abi::Descriptor4>;
using Own5 = Plugin<abi::Descriptor5>;

}  // namespace
}  // namespace rondo::watch

// Data, so that no entry point of api/export.h is of use here, and constants: plugin.c, which knows
// the name, copies them while libraries are loaded.
#pragma GCC visibility push(default)
extern "C" {
namespace abi = rondo::profiler::abi;
using rondo::watch::init_1, rondo::watch::init_4, rondo::watch::init_5;
using rondo::watch::Own1, rondo::watch::Own2, rondo::watch::Own3, rondo::watch::Own4,
    rondo::watch::Own5;

extern const abi::ProfilerTable rondo_watch_tables_7[7];
const abi::ProfilerTable rondo_watch_tables_7[7] = {
    {abi::kWatchName, reinterpret_cast<abi::Any>(init_1<1, abi::Descriptor1>), Own1::start<1>,
     Own1::stop, Own1::record, Own1::finish},
    {abi::kWatchName, reinterpret_cast<abi::Any>(init_1<2, abi::Descriptor2>), Own2::start<2>,
     Own2::stop, Own2::record, Own2::finish},
    {abi::kWatchName, reinterpret_cast<abi::Any>(init_1<3, abi::Descriptor3>), Own3::start<3>,
     Own3::stop, Own3::record, Own3::finish},
    {abi::kWatchName, reinterpret_cast<abi::Any>(init_4), Own4::start<4>, Own4::stop, Own4::record,
     Own4::finish},
    {abi::kWatchName, reinterpret_cast<abi::Any>(init_5<5>), Own5::start<5>, Own5::stop,
     Own5::record, Own5::finish},
    {abi::kWatchName, reinterpret_cast<abi::Any>(init_5<6>), Own5::start<6>, Own5::stop,
     Own5::record, Own5::finish},
    {abi::kWatchName, reinterpret_cast<abi::Any>(init_5<7>), Own5::start<7>, Own5::stop,
     Own5::record, Own5::finish},
};
}
#pragma GCC visibility pop
