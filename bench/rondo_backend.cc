// SPDX-License-Identifier: Apache-2.0
#include "bench/backend.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "bench/element_types.h"
#include "bench/reference.h"

namespace rondo::bench {
namespace {

class RondoBackend : public Backend {
 public:
  ~RondoBackend() override {
    if (comm_ != nullptr && !aborted_) ncclCommAbort(comm_);
    if (stream_ != nullptr) rondoStreamDestroy(stream_);
  }

  GpuLane* gpu() override { return gpu_.get(); }

  int version() override {
    int version = 0;
    ncclGetVersion(&version);
    return version;
  }
  ncclResult_t make_id(ncclUniqueId* id) override { return ncclGetUniqueId(id); }

  ncclResult_t join(const JoinOptions& options) override {
    rank_ = options.rank, ranks_ = options.ranks;
    if (options.device >= 0) {
      auto made = GpuLane::make(options.device);
      if (!made) {
        failure_ = made.error().text;
        return static_cast<ncclResult_t>(made.code());
      }
      gpu_ = std::move(made).value();
      queue_ = gpu_->stream();
    } else if (options.own_stream) {
      if (const ncclResult_t made = rondoStreamCreate(&stream_); made != ncclSuccess) return made;
      queue_ = rondoStreamHandle(stream_);
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.CTAPolicy = options.cta_policy;
    return ncclCommInitRankConfig(&comm_, options.ranks, options.id, options.rank, &config);
  }

  ncclResult_t leave() override {
    deregister_buffers();
    if (stream_ != nullptr) rondoStreamDestroy(std::exchange(stream_, nullptr));
    if (comm_ == nullptr || aborted_) return ncclSuccess;
    return ncclCommDestroy(std::exchange(comm_, nullptr));
  }

  void abort() override {
    aborted_ = true;  // the handle becomes invalid
    ncclCommAbort(comm_);
  }

  ncclResult_t issue(const Call& call) override {
    const Layout& layout = *call.layout;
    const std::size_t count = layout.count;
    switch (call.kind) {
      case Kind::kAllReduce:
        return ncclAllReduce(call.send, call.recv, count, call.type, call.op, comm_, queue_);
      case Kind::kAllGather:
        return ncclAllGather(call.send, call.recv, count, call.type, comm_, queue_);
      case Kind::kReduceScatter:
        return ncclReduceScatter(call.send, call.recv, count, call.type, call.op, comm_, queue_);
      case Kind::kBroadcast:
        return ncclBroadcast(call.send, call.recv, count, call.type, call.root, comm_, queue_);
      case Kind::kReduce:
        return ncclReduce(call.send, call.recv, count, call.type, call.op, call.root, comm_,
                          queue_);
      case Kind::kAllToAll:
        return ncclAlltoAll(call.send, call.recv, count, call.type, comm_, queue_);
      case Kind::kGather:
        return ncclGather(call.send, call.recv, count, call.type, call.root, comm_, queue_);
      case Kind::kScatter:
        return ncclScatter(call.send, call.recv, count, call.type, call.root, comm_, queue_);
      case Kind::kSendRecv:
        return pass_on(call);
      case Kind::kHyperCube:
        return hypercube(call);
      case Kind::kBarrier:
        return rondoBarrier(comm_, queue_);
      case Kind::kAllToAllV:
        return rondoAllToAllv(call.send, layout.send_counts.data(), layout.send_offsets.data(),
                              call.recv, layout.recv_counts.data(), layout.recv_offsets.data(),
                              call.type, comm_, queue_);
      case Kind::kAllGatherV:
        return rondoAllGatherv(call.send, layout.send_count, call.recv, layout.recv_counts.data(),
                               layout.recv_offsets.data(), call.type, comm_, queue_);
      case Kind::kReduceScatterV:
        return rondoReduceScatterv(call.send, call.recv, layout.send_counts.data(), call.type,
                                   call.op, comm_, queue_);
      case Kind::kGatherV:
        return rondoGatherv(call.send, layout.send_count, call.recv, layout.recv_counts.data(),
                            layout.recv_offsets.data(), call.type, call.root, comm_, queue_);
      case Kind::kScatterV:
        return rondoScatterv(call.send, layout.send_counts.data(), layout.send_offsets.data(),
                             call.recv, layout.recv_count, call.type, call.root, comm_, queue_);
    }
    return ncclInternalError;
  }

  ncclResult_t wait() override {
    if (gpu_ != nullptr) return result_of(gpu_->wait());
    return stream_ == nullptr ? ncclSuccess : rondoStreamSynchronize(stream_);
  }
  ncclResult_t barrier() override { return rondoBarrier(comm_, queue_); }
  ncclResult_t group_start() override { return ncclGroupStart(); }
  ncclResult_t group_end() override { return ncclGroupEnd(); }

  ncclResult_t make_mulsum(ncclDataType_t type, int factor, ncclRedOp_t* op) override {
    const TypeInfo& row = info(type);
    std::uint64_t scalar = static_cast<std::uint64_t>(factor);
    if (row.is_float) scalar = encode(row, factor);
    return ncclRedOpCreatePreMulSum(op, &scalar, type, ncclScalarHostImmediate, comm_);
  }
  ncclResult_t destroy_op(ncclRedOp_t op) override { return ncclRedOpDestroy(op, comm_); }

  ncclResult_t allocate(std::size_t bytes, void** memory) override {
    if (gpu_ != nullptr)
      if (const ncclResult_t bound = result_of(gpu_->bind()); bound != ncclSuccess) return bound;
    return ncclMemAlloc(memory, bytes);
  }
  ncclResult_t free(void* memory) override { return ncclMemFree(memory); }

  ncclResult_t register_buffer(void* memory, std::size_t bytes, bool window) override {
    if (window) {
      windows_.push_back(nullptr);  // inside a group: set at its end
      return ncclCommWindowRegister(comm_, memory, bytes, &windows_.back(),
                                    NCCL_WIN_COLL_SYMMETRIC);
    }
    void* made = nullptr;
    const ncclResult_t result = ncclCommRegister(comm_, memory, bytes, &made);
    if (result == ncclSuccess) registrations_.push_back(made);
    return result;
  }
  ncclResult_t deregister_buffers() override {
    ncclResult_t first = ncclSuccess;
    for (ncclWindow_t window : std::exchange(windows_, {}))
      if (const ncclResult_t result = ncclCommWindowDeregister(comm_, window); !first)
        first = result;
    for (void* registration : std::exchange(registrations_, {}))
      if (const ncclResult_t result = ncclCommDeregister(comm_, registration); !first)
        first = result;
    return first;
  }

  double network_gbs() override {
    double bytes = 0;
    return rondoCommNetworkRate(comm_, &bytes) == ncclSuccess ? bytes / 1e9 : 0;
  }

  double predicted_us(const Call& call) override {
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    if (ncclGroupStart() != ncclSuccess) return 0;
    const ncclResult_t issued = issue(call);
    return ncclGroupSimulateEnd(&info) == ncclSuccess && issued == ncclSuccess ? info.estimatedTime
                                                                               : 0;
  }
  std::string last_plan() override {
    char text[128] = "";
    return rondoGetLastPlan(comm_, text, sizeof text) == ncclSuccess ? text : "";
  }
  std::string last_error() override {
    return failure_.empty() ? ncclGetLastError(comm_) : failure_;
  }
  std::size_t memory_used() override {
    std::size_t bytes = 0;
    return rondoCommMemoryUsed(comm_, &bytes) == ncclSuccess ? bytes : 0;
  }

 private:
  ncclResult_t result_of(const Status& outcome) {
    if (outcome) return ncclSuccess;
    failure_ = outcome.error().text;
    return static_cast<ncclResult_t>(outcome.code());
  }

  // Sends to the next rank, receives from the previous one.
  ncclResult_t pass_on(const Call& call) {
    const int next = (rank_ + 1) % ranks_, previous = (rank_ + ranks_ - 1) % ranks_;
    return exchange(call.send, next, call.recv, previous, call.layout->count, call);
  }

  ncclResult_t exchange(const void* send, int to, void* recv, int from, std::size_t count,
                        const Call& call) {
    if (const ncclResult_t result = ncclGroupStart(); result != ncclSuccess) return result;
    const ncclResult_t sent = ncclSend(send, count, call.type, to, comm_, queue_);
    const ncclResult_t received = ncclRecv(recv, count, call.type, from, comm_, queue_);
    const ncclResult_t ended = ncclGroupEnd();
    return sent != ncclSuccess ? sent : received != ncclSuccess ? received : ended;
  }

  // All-gather by doubling: in step k a rank exchanges its 2^k blocks with the rank whose number
  // differs in bit k.
  ncclResult_t hypercube(const Call& call) {
    const std::size_t block = call.layout->count * info(call.type).size;
    char* recv = static_cast<char*>(call.recv);
    char* own = recv + static_cast<std::size_t>(rank_) * block;
    if (own != call.send) {
      if (gpu_ != nullptr) {
        if (const auto result = result_of(gpu_->copy(own, call.send, block)); result != ncclSuccess)
          return result;
      } else {
        if (const ncclResult_t result = wait(); result != ncclSuccess) return result;
        std::memcpy(own, call.send, block);
      }
    }
    for (int bit = 1; bit < ranks_; bit *= 2) {
      const int partner = rank_ ^ bit;
      const auto mine = static_cast<std::size_t>(rank_ & ~(bit - 1));
      const auto theirs = static_cast<std::size_t>(partner & ~(bit - 1));
      const ncclResult_t result =
          exchange(recv + mine * block, partner, recv + theirs * block, partner,
                   call.layout->count * static_cast<std::size_t>(bit), call);
      if (result != ncclSuccess) return result;
    }
    return ncclSuccess;
  }

  int rank_ = 0, ranks_ = 1;
  std::unique_ptr<GpuLane> gpu_;
  std::string failure_;  // error of a CUDA call made by the benchmark itself
  ncclComm_t comm_ = nullptr;
  std::atomic<bool> aborted_{false};
  rondoStream_t stream_ = nullptr;
  cudaStream_t queue_ = nullptr;
  std::vector<void*> registrations_;
  std::deque<ncclWindow_t> windows_;
};

}  // namespace

std::unique_ptr<Backend> make_rondo_backend() { return std::make_unique<RondoBackend>(); }

}  // namespace rondo::bench
