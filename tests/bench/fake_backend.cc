// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/fake_backend.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "bench/element_types.h"

namespace rondo::bench {
namespace {

template <class T>
void add(std::byte* into, const std::byte* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, into + i * sizeof(T), sizeof(T));
    std::memcpy(&b, from + i * sizeof(T), sizeof(T));
    if constexpr (std::is_integral_v<T>)
      a = static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    else
      a += b;
    std::memcpy(into + i * sizeof(T), &a, sizeof(T));
  }
}

class FakeBackend : public Backend {
 public:
  explicit FakeBackend(std::shared_ptr<FakeWorld> world) : world_(std::move(world)) {}

  int version() override { return 1; }
  ncclResult_t make_id(ncclUniqueId* id) override { return *id = {}, ncclSuccess; }
  ncclResult_t join(const JoinOptions& options) override {
    return rank_ = options.rank, ncclSuccess;
  }
  ncclResult_t leave() override { return ncclSuccess; }
  void abort() override {
    if (!world_->aborted.exchange(true)) world_->meeting.arrive_and_drop();
  }

  ncclResult_t issue(const Call& call) override {
    const int number = number_++;
    if (world_->hang) {
      world_->hang(rank_, [this] { return world_->aborted.load(); });
      if (world_->aborted) return ncclInvalidUsage;
    }
    if (world_->fail)
      if (const ncclResult_t result = world_->fail(rank_, number); result != ncclSuccess)
        return result;
    world_->calls[static_cast<std::size_t>(rank_)] = call;
    world_->meeting.arrive_and_wait();
    if (world_->aborted) return ncclRemoteError;
    const std::vector<std::byte> result = compute(call);
    world_->meeting.arrive_and_wait();
    if (world_->aborted) return ncclRemoteError;
    if (!result.empty()) std::memcpy(call.recv, result.data(), result.size());
    if (world_->after) world_->after(rank_, number, call);
    return ncclSuccess;
  }
  ncclResult_t wait() override { return ncclSuccess; }
  ncclResult_t barrier() override {
    world_->meeting.arrive_and_wait();
    return ncclSuccess;
  }
  ncclResult_t group_start() override { return ncclSuccess; }
  ncclResult_t group_end() override { return ncclSuccess; }
  ncclResult_t make_mulsum(ncclDataType_t, int, ncclRedOp_t*) override { return ncclInvalidUsage; }
  ncclResult_t destroy_op(ncclRedOp_t) override { return ncclSuccess; }
  ncclResult_t allocate(std::size_t bytes, void** memory) override {
    *memory = std::malloc(bytes);
    return ncclSuccess;
  }
  ncclResult_t free(void* memory) override { return std::free(memory), ncclSuccess; }
  ncclResult_t register_buffer(void*, std::size_t, bool) override { return ncclSuccess; }
  ncclResult_t deregister_buffers() override { return ncclSuccess; }
  std::string last_plan() override { return "fake plan"; }
  std::string last_error() override { return "the test's own error"; }
  std::size_t memory_used() override { return 4096; }

 private:
  std::vector<std::byte> compute(const Call& call) const {
    const std::size_t element = info(call.type).size;
    std::vector<std::byte> result(call.layout->recv_count * element);
    for (const Piece& piece : call.layout->pieces) {
      if (piece.count == 0) continue;  // it may have no buffer
      std::byte* out = result.data() + piece.recv_offset * element;
      const auto source = [&](int rank) {
        return static_cast<const std::byte*>(world_->calls[static_cast<std::size_t>(rank)].send) +
               piece.source_offset * element;
      };
      std::memcpy(out, source(std::max(piece.source, 0)), piece.count * element);
      for (int rank = 1; piece.source == kEveryRank && rank < world_->ranks; ++rank)
        call.type == ncclInt32 ? add<std::int32_t>(out, source(rank), piece.count)
                               : add<float>(out, source(rank), piece.count);
    }
    return result;
  }

  std::shared_ptr<FakeWorld> world_;
  int rank_ = 0;
  int number_ = 0;
};

}  // namespace

FakeWorld::FakeWorld(int ranks)
    : ranks(ranks), meeting(ranks), calls(static_cast<std::size_t>(ranks)) {}

MakeBackend fake_backends(std::shared_ptr<FakeWorld> world) {
  return [world]() -> std::unique_ptr<Backend> { return std::make_unique<FakeBackend>(world); };
}

}  // namespace rondo::bench
