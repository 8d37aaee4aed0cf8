// Adapter: what all links of a rank share of one port: the opened device, registered memory of
// Rondo's own, and who is told of which completion.
//
// Guarantees: nothing waits. A queue pair that was removed is told of nothing more, though
// completions of it may still lie in the queue. One thread. Cost: poll() without completions is a
// few loads.
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

// What was posted, as the id of its completion.
struct Posted {
  enum class Kind : std::uint8_t {
    kReceive,
    kWithNext,  // a write that completes with the next one; of its own only when it fails
    kControl,   // credits, a note, a word that the pair is ready
    kPart,      // of a message
    kPut,
  };
  std::uint32_t slot = 0;  // of the queue pair, 24 bits
  Kind kind = Kind::kReceive;
  std::uint8_t writes = 1;  // that complete by this one
  std::uint16_t value = 0;

  std::uint64_t id() const;
  static Posted of(std::uint64_t id);
};

class PairOwner {
 public:
  virtual ~PairOwner() = default;
  // Of its queue pair `pair`. Makes and removes no pairs meanwhile.
  virtual void completed(int pair, const Posted& posted, const ibv_wc& completion) = 0;
};

class Adapter {
 public:
  // patience: seconds after which a port that is down has failed.
  static Result<std::unique_ptr<Adapter>> open(const Port& port, const Options& options,
                                               double patience);

  // Sends and receives that one queue pair may have posted.
  static constexpr int kSends = 256, kReceives = 192;

  // Tells owners of completions; true if there was one.
  bool poll();
  // Asks the descriptors to ring; false: something came meanwhile.
  bool arm();
  // Reads what the device says of itself.
  void look_at_device();
  // Why nothing goes on here, if so: the device failed, or the port is down: for too long, or at
  // all where `at_once`.
  std::optional<std::string> trouble(bool at_once) const;
  double patience() const { return patience_; }

  // The slot is the pair's in Posted. There is room in the completion queue for all that it posts.
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
  std::vector<Owner> owners_;  // by slot; slots are not used again
  int pairs_ = 0;
  std::string failure_;
  std::optional<Clock::time_point> down_since_;
};

}  // namespace rondo::verbs
