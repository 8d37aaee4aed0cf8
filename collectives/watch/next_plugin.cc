// SPDX-License-Identifier: Apache-2.0
#include "collectives/watch/next_plugin.h"

#include <mutex>
#include <string>

#include "base/env.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/printable.h"
#include "collectives/profiler/describe.h"

namespace rondo::watch {
namespace {

namespace abi = profiler::abi;

constexpr plugin::Kind kNext{plugin::kProfiler.what, plugin::kProfiler.prefix, "RONDO_WATCH_NEXT",
                             plugin::kProfiler.symbol};
constexpr int kFirstExtensible = 5;
constexpr std::uint64_t kMark = std::uint64_t{0xf} << 60;  // no handle of the watch begins so

struct Found {
  const abi::ProfilerTable* table;
  int version;
};

Result<Found> load(const std::string& value, int version) {
  const std::string file = plugin::file_of(kNext, value);
  if (file.empty()) return fail(StatusCode::kInvalidUsage, "it names no library");
  RONDO_TRY(void* const library, plugin::open_library(kNext, file));
  const int oldest = version >= kFirstExtensible ? kFirstExtensible : version;
  RONDO_TRY(const plugin::Symbol symbol,
            plugin::newest_symbol(kNext, library, file, oldest, version));
  const auto* const table = static_cast<const abi::ProfilerTable*>(symbol.address);
  if (table->init == nullptr || table->start == nullptr || table->stop == nullptr ||
      table->record == nullptr || table->finish == nullptr)
    return fail(StatusCode::kInvalidUsage, "ncclProfiler_v{} of it lacks a function",
                symbol.version);
  return Found{table, symbol.version};
}

std::uint64_t kinds_of(int version) {
  for (const profiler::Version& known : profiler::kVersions)
    if (known.number == version) return known.kinds;
  return ~std::uint64_t{0};  // a newer one
}

}  // namespace

std::atomic<NextPlugin*> NextPlugin::loaded_{nullptr};

NextPlugin* NextPlugin::of_version(int version) {
  static std::mutex mutex;
  static bool tried = false;
  std::lock_guard lock(mutex);
  const std::string value = env::get_string("RONDO_WATCH_NEXT");
  if (tried || value.empty()) return loaded();
  tried = true;
  const auto found = guarded("loading the next plugin", [&] { return load(value, version); });
  if (found.ok()) {
    loaded_ = new NextPlugin(*found->table, kinds_of(found->version));
    RONDO_INFO(kInit, "RONDO_WATCH_NEXT: events go on to {}", printable(value));
  } else {
    notice(found.error().text + "; the job is watched, that plugin gets no events");
  }
  return loaded();
}

void* NextPlugin::join(Pair pair) {
  const std::uint64_t number = newest_.fetch_add(1, std::memory_order_relaxed) + 1;
  Entry& entry = (*pairs_)[number % kPairs];
  entry.number.store(0, std::memory_order_release);
  entry.own.store(pair.own, std::memory_order_release);
  entry.next.store(pair.next, std::memory_order_release);
  entry.number.store(number, std::memory_order_release);
  return reinterpret_cast<void*>(kMark | number);
}

NextPlugin::Pair NextPlugin::split(void* handle) const {
  const auto word = reinterpret_cast<std::uint64_t>(handle);
  if ((word & kMark) != kMark) return {};
  const std::uint64_t number = word & ~kMark;
  const Entry& entry = (*pairs_)[number % kPairs];
  const bool is_known = entry.number.load(std::memory_order_acquire) == number;
  const Pair pair{entry.own.load(std::memory_order_acquire),
                  entry.next.load(std::memory_order_acquire)};
  return is_known && entry.number.load(std::memory_order_relaxed) == number ? pair : Pair{};
}

}  // namespace rondo::watch
