// Adapters: the ports that a rank uses, nearest first, and callers' memory, registered with each.
//
// Guarantees: those of Adapter. Memory is registered with all ports or with none; its key is valid
// until it is deregistered. Cost: registering pins pages once per port.
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
  using Keys = std::array<KeyPair, kMaxRails>;  // index: adapter

  // Leaves out ports that cannot be opened; error: none can be.
  static Result<std::unique_ptr<Adapters>> open(const std::vector<Port>& ports,
                                                const Options& options, double patience);

  std::size_t size() const { return all_.size(); }
  Adapter& at(std::size_t index) const { return *all_[index]; }
  std::vector<Port> ports() const;
  std::uint64_t max_bytes() const;  // maximum of one write, on any of them

  bool poll();
  bool arm();

  Result<net::MemoryKey> register_memory(const net::Memory& memory);
  void deregister_memory(net::MemoryKey key) { memory_.erase(key); }
  // The key for peers that put into the memory.
  Result<PackedKey> pack_key(net::MemoryKey key) const;
  // The keys of the memory; null: it does not contain all of the bytes.
  const Keys* find(net::MemoryKey key, std::span<const std::byte> bytes) const;
  // needs_flush(): data received in this memory is visible only after a flush. begin_flush() covers
  // all data received so far: a call, or a read by each adapter, which takes time. nullopt: too
  // many reads are in progress, try again.
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
  std::vector<std::unique_ptr<ReadBack>> reads_;       // one per adapter; created at first use
  std::unordered_map<net::MemoryKey, Memory> memory_;  // destroyed before the adapters
  net::MemoryKey last_key_ = 0;
};

}  // namespace rondo::verbs
