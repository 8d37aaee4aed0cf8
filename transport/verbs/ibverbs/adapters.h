// Adapters: the ports that a rank uses, nearest first, and memory of callers, registered with each.
//
// Guarantees: those of Adapter. A key is of the memory until it is deregistered, on all ports or on
// none. Cost: registering pins pages once a port.
//
//   RONDO_TRY(auto adapters, Adapters::open(ports, options, 20));
//   RONDO_TRY(const net::MemoryKey key, adapters->register_memory(bytes));
//   if (const Adapters::Keys* keys = adapters->find(key, body)) use(keys->at(0).local);
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "transport/net/net.h"
#include "transport/verbs/ibverbs/read_back.h"

namespace rondo::verbs {

class Adapters {
 public:
  struct KeyPair {
    std::uint32_t local = 0, remote = 0;
  };
  using Keys = std::array<KeyPair, kMaxRails>;  // by adapter

  // An error says why there is none; ports that cannot be opened while others can are left out.
  static Result<std::unique_ptr<Adapters>> open(const std::vector<Port>& ports,
                                                const Options& options, double patience);

  std::size_t size() const { return all_.size(); }
  Adapter& at(std::size_t index) const { return *all_[index]; }
  std::vector<Port> ports() const;
  std::uint64_t max_bytes() const;  // of one write on any of them

  bool poll();
  bool arm();

  Result<net::MemoryKey> register_memory(const net::Memory& memory);
  void deregister_memory(net::MemoryKey key) { memory_.erase(key); }
  // For peers that put into it.
  Result<PackedKey> pack_key(net::MemoryKey key) const;
  // The keys of the memory, if the bytes lie in it.
  const Keys* find(net::MemoryKey key, std::span<const std::byte> bytes) const;
  // Whether what comes into the memory of this key needs a flush; and one, of all that has come
  // there by now: some call, or a read by each adapter, which takes a while. Nothing: try again.
  struct Flush {
    std::array<std::optional<std::uint64_t>, kMaxRails> reads{};
  };
  bool needs_flush(net::MemoryKey key) const;
  Result<std::optional<Flush>> begin_flush(net::MemoryKey key, const std::byte* at) const;
  Result<bool> is_over(const Flush& flush) const;

 private:
  Adapters() = default;
  struct Memory {
    std::span<std::byte> bytes;
    std::function<Status()> flush;
    bool read_back = false;
    Keys keys{};
    std::vector<Region> regions;
  };
  Status add_read_back();

  std::vector<std::unique_ptr<Adapter>> all_;
  std::vector<std::unique_ptr<ReadBack>> reads_;       // by adapter, once some memory is read back
  std::unordered_map<net::MemoryKey, Memory> memory_;  // goes before the adapters
  net::MemoryKey last_key_ = 0;
};

}  // namespace rondo::verbs
