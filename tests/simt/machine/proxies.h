// SPDX-License-Identifier: Apache-2.0
// Proxies: the proxy by which each 16-byte unit was written last, and which threads have fenced
// since.
//
// Ordinary accesses and multimem instructions access the same bytes through different proxies. Only
// a proxy fence orders one proxy after another: by the writer after its store, or by the reader
// through the other proxy before its access. An access that is otherwise ordered but lacks this
// fence is a violation. Launches order all proxies. Limits: fences of third threads are ignored, so
// a kernel that relies on them is reported; a load before a store through another proxy is not
// tracked. Cost: 15 ns a store, in weak memory only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace rondo::simt {

enum class Proxy : std::uint8_t { kGeneric, kMultimem };
const char* name(Proxy proxy);

class Proxies {
 public:
  // `begin` returns the number of a new thread, ordered after all earlier accesses.
  std::uint32_t begin();
  void fence_alias(std::uint32_t thread) { fences_[thread] = ++now_; }
  // True if the thread may access [at, at + bytes), within one unit, by proxy `way`. If not, *by is
  // the proxy that wrote it.
  bool may_touch(std::uint32_t thread, const std::byte* at, Proxy way, Proxy* by);
  void wrote(std::uint32_t thread, const std::byte* at, Proxy way);
  void forget();  // called when no thread is left

 private:
  static constexpr std::size_t kPage = 4096, kUnit = 16;
  struct Unit {
    std::uint64_t at = 0;  // time; 0: never written
    std::uint32_t writer = 0;
    Proxy way = Proxy::kGeneric;
  };
  using Page = std::array<Unit, kPage / kUnit>;

  Unit* unit_at(const std::byte* at, bool make);

  std::uint64_t now_ = 0;
  bool multimem_ = false;              // true if multimem instructions have written anything
  std::vector<std::uint64_t> fences_;  // by thread: time of its newest fence
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  std::uintptr_t newest_number_ = 0;
  Page* newest_ = nullptr;
};

}  // namespace rondo::simt
