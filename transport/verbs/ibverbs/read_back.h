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

}  // namespace rondo::verbs
