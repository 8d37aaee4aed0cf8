// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/channels/device_connections.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/seconds.h"
#include "collectives/faults/fault_texts.h"
#include "collectives/gpu/channels/p2p_check.h"
#include "transport/cuda/device.h"
#include "transport/memory/packed_memory.h"
#include "transport/memory/pinned_file.h"

namespace rondo::gpu {
namespace {

enum Verdict : int { kWell = 0, kRefused = 1, kFailed = 2 };

std::vector<int> ranks_of_host(const ProcessPeers& peers) {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < peers.process_of.size(); ++r)
    if (peers.process_of[r] >= 0) ranks.push_back(static_cast<int>(r));
  return ranks;
}

class Sharing {
 public:
  explicit Sharing(const SharedConnectionsRequest& request)
      : request_(request),
        peers_(request.peers),
        layout_(request.shape, *request.near, request.hosts, request.orders) {}

  // The result of this attempt for all processes; an error if they failed for another reason.
  Result<Verdict> run() {
    holdings_ = std::make_shared<std::vector<MappedMemory>>();
    handles_.resize(peers_.process_of.size() + 1);
    memory_.of_rank.resize(peers_.process_of.size());
    memory_.host_on_device.resize(peers_.process_of.size());
    memory_.keeper = holdings_;
    memory_.is_packed = is_packed_;
    const Status given = give();
    RONDO_CHECK_OK(exchange());
    Status done = given.ok() ? take() : given;
    std::optional<P2pCheck> p2p;
    if (done.ok()) done = p2p.emplace(request_.device, marked_blocks(), pairs()).write();
    RONDO_TRY(const Verdict all, verdict(done));
    if (all != kWell || !any_pairs()) return all;
    return verdict(look_for_marks(*p2p));
  }
  Result<std::unique_ptr<DeviceConnections>> connections() {
    return DeviceConnections::open(std::move(layout_), request_.device, std::move(memory_));
  }

 private:
  bool is_here(std::size_t rank) const { return peers_.process_of[rank] == peers_.process; }
  ControlSegment& segment() const { return *peers_.segment; }

  Result<Verdict> verdict(const Status& done) const {
    if (!done.ok()) peers_.note().put(done);
    const Verdict own = !done.ok() ? kFailed : refused_ ? kRefused : kWell;
    RONDO_TRY(const int all, highest_of_all(peers_, own));
    if (all != kFailed) return static_cast<Verdict>(all);
    RONDO_CHECK_OK(done);
    return text_of_others();
  }

  // Allocates this process's blocks, with the handles by which others may map them.
  Status give() {
    for (std::size_t r = 0; r < peers_.process_of.size(); ++r) {
      if (!is_here(r)) continue;
      MemoryNote& offer = segment().offer(static_cast<int>(r));
      offer.status = 0;
      offer.handle = {};
      offer.what = static_cast<std::uint32_t>(now_ns());  // makes the mark of P2pCheck unique
      const std::uint64_t bytes = layout_.bytes(static_cast<int>(r));
      if (is_packed_) {
        RONDO_CHECK_OK(give_packed(r, bytes));
        continue;
      }
      RONDO_TRY(EdgeMemory made, p2p_.allocate(bytes, request_.device));
      memory_.of_rank[r] = made.memory.get();
      holdings_->push_back(std::move(made.memory));
      handles_[r] = std::move(made.handle);
      offer.handle = handles_[r].plain;
    }
    return ok_status();
  }

  Status give_packed(std::size_t rank, std::uint64_t bytes) {
    RONDO_TRY(OwnMemory made, packed_memory().take(bytes, request_.device));
    RONDO_TRY(auto exported, PackedMemory::export_block(made));
    memory_.of_rank[rank] = made.get();
    holdings_->push_back(std::move(made));
    handles_[rank] = std::move(exported.handle);
    MemoryNote& offer = segment().offer(static_cast<int>(rank));
    offer.handle = handles_[rank].plain;
    offer.address = exported.offset;
    return ok_status();
  }
  Result<MappedMemory> connect(int rank) {
    if (!is_packed_) return p2p_.connect(handles_[rank], layout_.bytes(rank), request_.device);
    return PackedMemory::import_block(handles_[rank], segment().offer(rank).address,
                                      request_.device);
  }

  // Handles of all ranks and of the host's memory: all send theirs to the leader, which sends all
  // back.
  Status exchange() {
    if (!peers_.leads()) {
      RONDO_CHECK_OK(send(peers_.to_leader(), of(peers_.process, false)));
      return receive(peers_.to_leader(), of(peers_.process, true));
    }
    if (auto made = host_.allocate(layout_.host_bytes(), request_.device); made.ok()) {
      host_memory_ = std::move(made->memory);
      handles_.back() = std::move(made->handle);
    }
    const int processes = peers_.processes();
    for (int p = 1; p < processes; ++p) RONDO_CHECK_OK(receive(peers_.of_process(p), of(p, false)));
    for (int p = 1; p < processes; ++p) RONDO_CHECK_OK(send(peers_.of_process(p), of(p, true)));
    return ok_status();
  }

  using Indexes = std::vector<std::size_t>;  // of handles_
  bool is_of_host(std::size_t i) const { return i + 1 == handles_.size(); }
  bool is_known(std::size_t i) const { return is_of_host(i) || peers_.process_of[i] >= 0; }
  // Indexes of a process's handles; or of all others, the host's last.
  Indexes of(int process, bool others) const {
    Indexes found;
    for (std::size_t i = 0; i < handles_.size(); ++i)
      if ((is_of_host(i) || peers_.process_of[i] != process) == others && is_known(i))
        found.push_back(i);
    return found;
  }
  Status send(const net::Socket& socket, const Indexes& which) {
    std::vector<const MemoryHandle*> handles;
    for (const std::size_t i : which) handles.push_back(&handles_[i]);
    return send_files(socket.get(), handles, peers_.deadline);
  }
  Status receive(const net::Socket& socket, const Indexes& which) {
    const PlainHandle of_host{.kind = PlainHandle::kFile};
    std::vector<const PlainHandle*> plain;
    for (const std::size_t i : which)
      plain.push_back(is_of_host(i) ? &of_host : &segment().offer(static_cast<int>(i)).handle);
    RONDO_TRY(auto handles, receive_handles(socket.get(), plain, peers_.deadline));
    for (std::size_t i = 0; i < which.size(); ++i) handles_[which[i]] = std::move(handles[i]);
    return ok_status();
  }

  // Maps what ranks of this process use of other processes' memory.
  Status take() {
    if (!handles_.back().file)
      return fail(StatusCode::kSystemError,
                  "rank 0 could not make memory of the host for connections");
    if (host_memory_ == nullptr) {
      RONDO_TRY(host_memory_,
                host_.connect(handles_.back(), layout_.host_bytes(), request_.device));
    }
    memory_.host = host_memory_.get();
    holdings_->push_back(host_memory_);
    const DeviceScope scope(request_.device);
    RONDO_CHECK_OK(scope.entered());
    for (const int r : ranks_) {
      if (is_here(static_cast<std::size_t>(r))) {
        RONDO_TRY(memory_.host_on_device[r], address_on_device(host_memory_));
        continue;
      }
      std::vector<int> users;
      for (const int own : ranks_)
        if (is_here(static_cast<std::size_t>(own)) && layout_.uses(own, r)) users.push_back(own);
      if (!users.empty()) open_rank(r, users);
    }
    warn_of_hidden();
    return ok_status();
  }

  void open_rank(int rank, const std::vector<int>& users) {
    auto memory = connect(rank);
    if (memory.ok()) {
      memory_.of_rank[rank] = memory->get();
      return holdings_->push_back(std::move(*memory));
    }
    RONDO_INFO(kInit, "rank {} meets rank {} on the host, since its memory cannot be mapped: {}",
               users[0], rank, memory.error().text);
    for (const int user : users) segment().refused(user, rank) = 1;
    refused_ = true;
    const std::vector<int>& hidden = request_.hidden;
    if (std::find(hidden.begin(), hidden.end(), rank) == hidden.end()) return;
    unmapped_.push_back(rank);
    why_unmapped_ = memory.error().text;
  }

  // Where the driver can be asked, it has said that there is no P2P, and no warning is due.
  void warn_of_hidden() const {
    if (unmapped_.empty()) return;
    RONDO_WARN(
        "rank {}'s process does not see the GPUs of {} of its host and cannot map their memory "
        "({}): data between them pass through host memory, which is slower than P2P. If these GPUs "
        "have P2P (nvidia-smi topo -p2p w; MIG instances never do), let every process see all of "
        "them (CUDA_VISIBLE_DEVICES; Slurm: --gpu-bind=none), and choose by cudaSetDevice "
        "(torch.cuda.set_device)",
        peers_.first_rank(), fault_texts::list_of(unmapped_), why_unmapped_);
  }

  // For P2pCheck: the ranks of this host, by their place among them.
  bool use_each_other(int a, int b) const {
    return peers_.process_of[a] != peers_.process_of[b] && layout_.uses(a, b);
  }
  bool any_pairs() const {
    for (const int a : ranks_)
      for (const int b : ranks_)
        if (use_each_other(a, b)) return true;
    return false;
  }
  std::vector<P2pCheck::Block> marked_blocks() const {
    std::vector<P2pCheck::Block> blocks;
    for (const int r : ranks_) {
      assert(layout_.bytes(r) >= P2pCheck::bytes_for(ranks_.size()));
      const auto mark = std::uint64_t{segment().offer(r).what} << 32 | static_cast<unsigned>(r + 1);
      blocks.push_back({memory_.of_rank[r], mark});
    }
    return blocks;
  }
  std::vector<P2pCheck::Pair> pairs() const {
    std::vector<P2pCheck::Pair> found;
    for (std::size_t a = 0; a < ranks_.size(); ++a)
      for (std::size_t b = 0; b < ranks_.size(); ++b)
        if (is_here(ranks_[a]) && use_each_other(ranks_[a], ranks_[b]) &&
            memory_.of_rank[ranks_[b]] != nullptr)
          found.push_back({a, b});
    return found;
  }
  Status look_for_marks(P2pCheck& p2p) {
    RONDO_TRY(const auto broken, p2p.broken_pairs());
    for (const auto& [own, peer] : broken) {
      refused_ = true;
      segment().refused(ranks_[own], ranks_[peer]) = 1;
      RONDO_WARN(
          "what the GPUs of ranks {} and {} write into each other's memory does not arrive, though "
          "the driver offers P2P between them: they pass data through host memory, which is "
          "slower. An IOMMU or PCIe's ACS can redirect this traffic: boot with iommu=pt, or "
          "disable ACS. NCCL_P2P_DISABLE=1 avoids P2P without this check",
          ranks_[own], ranks_[peer]);
    }
    return ok_status();
  }

  Error text_of_others() const {
    const auto refusal = refusal_noted(segment());
    if (!refusal)
      return Error{StatusCode::kInternalError, "a rank could not share its part of connections"};
    return Error{refusal->why.code,
                 fmt::format("rank {} could not share its part of connections: {}", refusal->rank,
                             refusal->why.text)};
  }

  const SharedConnectionsRequest& request_;
  const ProcessPeers& peers_;
  const std::vector<int> ranks_ = ranks_of_host(peers_);
  ConnectionLayout layout_;
  // Equal in all processes.
  const bool is_packed_ = layout_.shape().lazy && layout_.max_bytes() <= PackedMemory::kMaxBytes;
  const EdgeTransport& p2p_ = edge_transport(EdgeTransport::kAtReceiver);
  const EdgeTransport& host_ = edge_transport(EdgeTransport::kOnHost);
  std::shared_ptr<std::vector<MappedMemory>> holdings_;
  MappedMemory host_memory_;
  ConnectionMemory memory_;
  std::vector<MemoryHandle> handles_;  // by rank; last: the memory file for all
  bool refused_ = false;
  std::vector<int> unmapped_;  // hidden ranks
  std::string why_unmapped_;   // of the last one
};

}  // namespace

Result<std::unique_ptr<DeviceConnections>> share_connections(
    const SharedConnectionsRequest& request) {
  constexpr int kAttempts = 3;  // some memory may not be mapped; through other, P2P may not work
  const std::vector<int> ranks = ranks_of_host(request.peers);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Sharing sharing(request);
    RONDO_TRY(const Verdict verdict, sharing.run());
    if (verdict == kWell) return sharing.connections();
    for (const int a : ranks)
      for (const int b : ranks)
        if (request.peers.segment->refused(a, b) != 0) request.near->separate(a, b);
  }
  return fail(StatusCode::kSystemError, "ranks on GPUs could not map each other's memory");
}

}  // namespace rondo::gpu
