// Proxies: by which way each 16 bytes were written last, and who has fenced since.
//
// Ordinary accesses, bulk copies (the async proxy) and multimem instructions reach the same bytes
// by different ways, and nothing orders one way after another but a proxy fence between them: by
// the writer after its store, or by the reader of the other way before its access. What was ordered
// by all other means, and comes by another way without such a fence, is a violation. Launches order
// all ways. Bulk copies that were waited for need no fence to be read the ordinary way: their
// completion is one. Bulk copies of different CTAs need one: ordinary accesses order them. Misses:
// fences of third threads are taken for none, so a kernel that relies on them is reported; loads
// before a store of another way are not followed. Cost: 15 ns a store, in weak memory only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace rondo::simt {

enum class Proxy : std::uint8_t { kGeneric, kAsync, kMultimem };
const char* name(Proxy proxy);

class Proxies {
 public:
  // Threads by number; `begin` is that of a thread that starts, after all that was before.
  std::uint32_t begin(int cta);
  void fence_async(std::uint32_t thread) { fences_[thread].async = ++now_; }
  void fence_alias(std::uint32_t thread) { fences_[thread].alias = ++now_; }
  // Whether the thread may come to [at, at + bytes), of one unit, by this way. else: *by is how
  // it was written.
  bool may_touch(std::uint32_t thread, const std::byte* at, Proxy way, Proxy* by);
  void wrote(std::uint32_t thread, const std::byte* at, Proxy way);
  void forget();  // when no thread is left

 private:
  static constexpr std::size_t kPage = 4096, kUnit = 16;
  struct Unit {
    std::uint64_t at = 0;  // time; 0: nobody has written
    std::uint32_t writer = 0;
    Proxy way = Proxy::kGeneric;
  };
  struct Fences {  // newest of a thread
    std::uint64_t async, alias;
    int cta;
  };
  using Page = std::array<Unit, kPage / kUnit>;

  Unit* unit_at(const std::byte* at, bool make);

  std::uint64_t now_ = 0;
  bool multimem_ = false;  // whether anything was written by multimem instructions
  std::vector<Fences> fences_;
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  std::uintptr_t newest_number_ = 0;
  Page* newest_ = nullptr;
};

}  // namespace rondo::simt
