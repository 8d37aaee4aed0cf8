// ReadBack: makes what an adapter has written into a GPU's memory visible to the GPU, where neither
// the GPU sees it by itself nor CUDA can flush: the adapter reads a byte from there, over a queue
// pair that is connected to itself. On PCI the answer comes after the adapter's writes before it.
//
// Guarantees: reads end in the order in which they began, soon, as they cross no wire; where the
// device refuses one, trouble() says so and none ends any more. Cost: a queue pair an adapter, a
// round trip on PCI a read; nothing is allocated.
//
//   RONDO_TRY(auto reads, ReadBack::make(adapter));
//   const auto number = reads->begin(address, key);   // nothing: too many are under way
//   while (!reads->is_over(*number)) adapter.poll();
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/verbs/ibverbs/adapter.h"
#include "transport/verbs/ibverbs/queue_pair.h"

namespace rondo::verbs {

class ReadBack final : private PairOwner {
 public:
  static Result<std::unique_ptr<ReadBack>> make(Adapter& adapter);
  ~ReadBack() override;
  ReadBack(const ReadBack&) = delete;
  ReadBack& operator=(const ReadBack&) = delete;

  // Of memory that was registered as one that is read back; its peers' key.
  std::optional<std::uint64_t> begin(std::uint64_t address, std::uint32_t key);
  bool is_over(std::uint64_t number) const { return number < over_; }
  const std::string& trouble() const { return trouble_; }

 private:
  static constexpr std::uint64_t kMax = 32;  // under way
  explicit ReadBack(Adapter& adapter) : adapter_(adapter) {}
  void completed(int pair, const Posted& posted, const ibv_wc& completion) override;

  Adapter& adapter_;
  std::unique_ptr<QueuePair> pair_;
  std::optional<std::uint32_t> slot_;
  Slice into_;  // what is read; nobody looks
  std::uint64_t begun_ = 0, over_ = 0;
  std::string trouble_;
};

}  // namespace rondo::verbs
