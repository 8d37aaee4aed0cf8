// Adapter: the part of one port that all links of a rank share: the opened device, registered
// memory for Rondo itself, and the owner of each queue pair, which receives its completions.
//
// Guarantees: nothing waits. The owner of a removed queue pair gets no more completions, even if
// some are still in the queue. For one thread. Cost: poll() without completions is a few loads.
//
//   RONDO_TRY(auto adapter, Adapter::open(port, options, 20));
//   RONDO_TRY(const std::uint32_t slot, adapter->add_pair(*this, 0));
//   adapter->poll();                       // calls this->completed(0, completion)
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/verbs/ibverbs/device_context.h"
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

}  // namespace rondo::verbs
