// SPDX-License-Identifier: Apache-2.0
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
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/net/net.h"
#include "transport/verbs/ibverbs/device_context.h"
#include "transport/verbs/ibverbs/queue_pair.h"
#include "transport/verbs/ibverbs/region.h"

namespace rondo::verbs {

// Identifies a posted request; encoded in the id of its completion.
struct Posted {
  enum class Kind : std::uint8_t {
    kReceive,
    kWithNext,  // a write that completes with the next one; has its own completion only on failure
    kControl,   // credits, a LossNote, or "ready"
    kPart,      // part of a message
    kPut,
  };
  std::uint32_t slot = 0;  // the queue pair's, 24 bits
  Kind kind = Kind::kReceive;
  std::uint8_t writes = 1;  // number of writes that this completion covers
  std::uint16_t value = 0;

  std::uint64_t id() const;
  static Posted of(std::uint64_t id);
};

class PairOwner {
 public:
  virtual ~PairOwner() = default;
  // A completion of its queue pair `pair`. Must not add or remove pairs.
  virtual void completed(int pair, const Posted& posted, const ibv_wc& completion) = 0;
};

// Adapter: the part of one port that all links of a rank share: the opened device, registered
// memory for Rondo itself, and the owner of each queue pair, which receives its completions.
//
// Guarantees: nothing waits. The owner of a removed queue pair gets no more completions, even if
// some are still in the queue. For one thread. Cost: poll() without completions is a few loads.
//
//   RONDO_TRY(auto adapter, Adapter::open(port, options, 20));
//   RONDO_TRY(const std::uint32_t slot, adapter->add_pair(*this, 0));
//   adapter->poll();                       // calls this->completed(0, completion)
class Adapter {
 public:
  // patience: seconds that a port can be down before it counts as failed.
  static Result<std::unique_ptr<Adapter>> open(const Port& port, const Options& options,
                                               double patience);

  // Maximum number of sends and receives that one queue pair has posted.
  static constexpr int kSends = 256, kReceives = 192;

  // Passes completions to their owners; true if there was one.
  bool poll();
  // Makes the descriptors readable at the next completion; false: one has arrived since.
  bool arm();
  // Reads the device's events.
  void look_at_device();
  // The reason why the port cannot be used, if so: the device failed, or the port is down, for
  // longer than patience() or, with `at_once`, at all.
  std::optional<std::string> trouble(bool at_once) const;
  double patience() const { return patience_; }

  // Returns the pair's Posted::slot. The completion queue then has room for all that it posts.
  Result<std::uint32_t> add_pair(PairOwner& owner, int pair);
  void remove_pair(std::uint32_t slot);

  DeviceContext& device() { return *device_; }
  RegionPool& pool() { return pool_; }

 private:
  Adapter(std::unique_ptr<DeviceContext> device, double patience);
  using Clock = std::chrono::steady_clock;
  struct Owner {
    PairOwner* owner = nullptr;
    int pair = 0;
  };

  const std::unique_ptr<DeviceContext> device_;
  const double patience_;
  RegionPool pool_;
  std::vector<Owner> owners_;  // index: slot; slots are not reused
  int pairs_ = 0;
  std::string failure_;
  std::optional<Clock::time_point> down_since_;
};

// ReadBack: makes an adapter's writes into GPU memory visible to the GPU, if the GPU does not see
// them by itself and CUDA cannot flush. The adapter reads a byte of that memory over a queue pair
// connected to itself; on PCI the answer arrives after the adapter's earlier writes.
//
// Guarantees: reads finish in the order in which they began, and soon, because they use no network.
// If the device refuses one, trouble() reports it and no later read finishes. Cost: one queue pair
// per adapter, one PCI round trip per read; nothing is allocated.
//
//   RONDO_TRY(auto reads, ReadBack::make(adapter));
//   const auto number = reads->begin(address, key);   // nullopt: too many are in progress
//   while (!reads->is_over(*number)) adapter.poll();
class ReadBack final : private PairOwner {
 public:
  static Result<std::unique_ptr<ReadBack>> make(Adapter& adapter);
  ~ReadBack() override;
  ReadBack(const ReadBack&) = delete;
  ReadBack& operator=(const ReadBack&) = delete;

  // For memory registered with read_back; `key` is its remote key.
  std::optional<std::uint64_t> begin(std::uint64_t address, std::uint32_t key);
  bool is_over(std::uint64_t number) const { return number < over_; }
  const std::string& trouble() const { return trouble_; }

 private:
  static constexpr std::uint64_t kMax = 32;  // reads in progress
  explicit ReadBack(Adapter& adapter) : adapter_(adapter) {}
  void completed(int pair, const Posted& posted, const ibv_wc& completion) override;

  Adapter& adapter_;
  std::unique_ptr<QueuePair> pair_;
  std::optional<std::uint32_t> slot_;
  Slice into_;  // destination of the reads; its content is not used
  std::uint64_t begun_ = 0, over_ = 0;
  std::string trouble_;
};

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
