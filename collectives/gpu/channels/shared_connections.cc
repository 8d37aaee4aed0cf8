#include "collectives/gpu/channels/shared_connections.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "collectives/gpu/registry_handles.h"
#include "transport/cuda/device.h"
#include "transport/cuda/device_memory.h"
#include "transport/shm/fd_passing.h"
#include "transport/shm/memfd.h"

namespace rondo::gpu {
namespace {

// What a process has of a layout.
struct Holdings {
  ~Holdings() {
    for (const OpenedMemory& memory : opened) close_memory(memory);
    Done freed;
    for (void* block : given) free_shareable(block, &freed);
    if (registered) gpu_api()->unregister_host(host.data());
  }
  std::vector<void*> given;  // blocks of ranks of this process
  std::vector<OpenedMemory> opened;
  shm::Mapping host;
  bool registered = false;
};

enum Verdict : int { kWell = 0, kRefused = 1, kFailed = 2 };

class Sharing {
 public:
  explicit Sharing(const SharedConnectionsRequest& request)
      : request_(request), layout_(request.shape, request.near, request.hosts) {}

  // What all processes make of this attempt; an error where they failed for a reason of their own.
  Result<Verdict> run() {
    holdings_ = std::make_shared<Holdings>();
    memory_.of_rank.resize(request_.devices.size());
    memory_.host_on_device.resize(request_.devices.size());
    memory_.keeper = holdings_;
    const Done given = give();
    RONDO_CHECK_OK(exchange());
    const Done taken = given.ok() ? take() : given;
    if (!taken.ok()) write_text(offer_of_own(), taken);
    RONDO_TRY(const Verdict all, settle(!taken.ok() ? kFailed : refused_ ? kRefused : kWell));
    if (all != kFailed) return all;
    RONDO_CHECK_OK(taken);
    return text_of_others();
  }
  Result<std::unique_ptr<DeviceConnections>> connections() {
    return DeviceConnections::open(std::move(layout_), request_.devices, std::move(memory_));
  }

 private:
  bool leads() const { return request_.process == 0; }
  bool is_here(std::size_t rank) const { return request_.devices[rank] >= 0; }
  ControlSegment& segment() const { return *request_.segment; }
  RegistryRequest& offer_of_own() const {
    const auto& of = request_.process_of;
    return segment().offer(
        static_cast<int>(std::find(of.begin(), of.end(), request_.process) - of.begin()));
  }
  static void write_text(RegistryRequest& offer, const Done& why) {
    offer.status = static_cast<std::uint32_t>(why.status());
    put_text(offer, why.error().text);
  }

  // This process's blocks, and the handles by which others may map them.
  Done give() {
    for (std::size_t r = 0; r < request_.devices.size(); ++r) {
      if (!is_here(r)) continue;
      RegistryRequest& offer = segment().offer(static_cast<int>(r));
      offer.status = 0;
      offer.is_file = 0;
      RONDO_TRY(void* const block,
                allocate_shareable(layout_.bytes(static_cast<int>(r)), request_.devices[r]));
      holdings_->given.push_back(block);
      memory_.of_rank[r] = static_cast<std::byte*>(block);
      const DeviceScope scope(request_.devices[r]);
      const auto whole = find_shareable(block, 1);
      auto handle = share_memory(whole->base, whole->bytes);
      // Then others will not be able to map it.
      if (!handle.ok()) handle = SharedHandle{};
      put_handle(offer, *handle);
      if (handle->file) files_.push_back(std::move(handle->file));
    }
    return done();
  }

  // Files of all ranks and of the host's memory: from everybody to the leader, and to everybody.
  Done exchange() {
    const std::size_t n = request_.devices.size();
    files_of_.resize(n);
    std::size_t next = 0;
    for (std::size_t r = 0; r < n; ++r)
      if (is_here(r) && segment().offer(static_cast<int>(r)).is_file != 0 && next < files_.size())
        files_of_[r] = std::move(files_[next++]);
    if (!leads()) {
      RONDO_CHECK_OK(send(
          request_.sockets[0], [&](std::size_t r) { return is_here(r); }, nullptr));
      return receive(
          request_.sockets[0], [&](std::size_t r) { return !is_here(r); }, &host_file_);
    }
    auto made = shm::create_memfd("rondo-gpu-connections", layout_.host_bytes());
    if (made.ok()) host_file_ = std::move(made).value();
    for (std::size_t p = 1; p < request_.sockets.size(); ++p)
      RONDO_CHECK_OK(receive(
          request_.sockets[p],
          [&](std::size_t r) { return request_.process_of[r] == static_cast<int>(p); }, nullptr));
    for (std::size_t p = 1; p < request_.sockets.size(); ++p)
      RONDO_CHECK_OK(send(
          request_.sockets[p],
          [&](std::size_t r) { return request_.process_of[r] != static_cast<int>(p); },
          &host_file_));
    return done();
  }

  template <class Chosen>
  Done send(const net::Socket& socket, Chosen&& chosen, const Fd* more) {
    std::vector<int> fds;
    if (more != nullptr && *more) fds.push_back(more->get());
    for (std::size_t r = 0; r < files_of_.size(); ++r)
      if (chosen(r) && files_of_[r]) fds.push_back(files_of_[r].get());
    int left = static_cast<int>(fds.size());
    std::size_t at = 0;
    do {
      const std::size_t some = std::min<std::size_t>(shm::kMostDescriptors, fds.size() - at);
      left -= static_cast<int>(some);
      RONDO_CHECK_OK(
          shm::send_fds(socket.get(), left, std::span(fds).subspan(at, some), request_.deadline));
      at += some;
    } while (left > 0);
    return done();
  }
  template <class Chosen>
  Done receive(const net::Socket& socket, Chosen&& chosen, Fd* more) {
    std::vector<Fd> fds;
    for (int left = 1; left > 0;) {
      RONDO_TRY(shm::FdMessage message, shm::receive_fds(socket.get(), request_.deadline));
      left = message.value;
      for (Fd& fd : message.fds) fds.push_back(std::move(fd));
    }
    std::size_t at = 0;
    if (more != nullptr && !fds.empty()) *more = std::move(fds[at++]);
    for (std::size_t r = 0; r < files_of_.size() && at < fds.size(); ++r)
      if (chosen(r) && segment().offer(static_cast<int>(r)).is_file != 0)
        files_of_[r] = std::move(fds[at++]);
    return done();
  }

  // Maps what ranks of this process use of others'.
  Done take() {
    if (!host_file_)
      return fail(Status::kSystemError, "rank 0 could not make a memory file for connections");
    RONDO_TRY(holdings_->host, shm::map_received(host_file_.get(), layout_.host_bytes()));
    memory_.host = holdings_->host.data();
    RONDO_CHECK_OK(shm::commit(memory_.host, layout_.host_bytes(), "connections of GPUs"));
    RONDO_CHECK_OK(check(
        gpu_api()->register_host(memory_.host, layout_.host_bytes(), kHostPortable | kHostMapped),
        "cudaHostRegister of memory that processes share (is ulimit -l too low?)"));
    holdings_->registered = true;
    const int n = static_cast<int>(request_.devices.size());
    for (int r = 0; r < n; ++r) {
      if (is_here(static_cast<std::size_t>(r))) {
        const DeviceScope scope(request_.devices[r]);
        RONDO_CHECK_OK(scope.entered());
        void* at = nullptr;
        RONDO_CHECK_OK(
            check(gpu_api()->host_device_pointer(&at, memory_.host), "cudaHostGetDevicePointer"));
        memory_.host_on_device[r] = static_cast<std::byte*>(at);
        continue;
      }
      std::vector<int> users;
      for (int own = 0; own < n; ++own)
        if (is_here(static_cast<std::size_t>(own)) && layout_.uses(own, r)) users.push_back(own);
      if (!users.empty()) open_rank(r, users);
    }
    return done();
  }

  void open_rank(int rank, const std::vector<int>& users) {
    const RegistryRequest& offer = segment().offer(rank);
    std::vector<int> devices;
    for (const int user : users)
      if (std::find(devices.begin(), devices.end(), request_.devices[user]) == devices.end())
        devices.push_back(request_.devices[user]);
    const DeviceScope scope(devices[0]);
    auto memory = offer.bytes == 0
                      ? Result<OpenedMemory>(Error{Status::kSystemError, "it cannot be shared"})
                      : open_memory(get_handle(offer, std::move(files_of_[rank])), devices);
    if (memory.ok()) {
      memory_.of_rank[rank] = memory->at;
      return holdings_->opened.push_back(*memory);
    }
    RONDO_INFO(kInit, "rank {} meets rank {} on the host, since its memory cannot be mapped: {}",
               users[0], rank, memory.error().text);
    for (const int user : users) segment().refused(user, rank) = 1;
    refused_ = true;
  }

  // The worst that any process found.
  Result<Verdict> settle(Verdict own) {
    if (!leads()) {
      RONDO_CHECK_OK(shm::send_fds(request_.sockets[0].get(), own, {}, request_.deadline));
      RONDO_TRY(const shm::FdMessage all,
                shm::receive_fds(request_.sockets[0].get(), request_.deadline));
      return static_cast<Verdict>(all.value);
    }
    int worst = own;
    for (std::size_t p = 1; p < request_.sockets.size(); ++p) {
      RONDO_TRY(const shm::FdMessage one,
                shm::receive_fds(request_.sockets[p].get(), request_.deadline));
      worst = std::max(worst, one.value);
    }
    for (std::size_t p = 1; p < request_.sockets.size(); ++p)
      RONDO_CHECK_OK(shm::send_fds(request_.sockets[p].get(), worst, {}, request_.deadline));
    return static_cast<Verdict>(worst);
  }

  Error text_of_others() const {
    for (int r = 0; r < segment().ranks(); ++r)
      if (const RegistryRequest& offer = segment().offer(r); offer.status != 0)
        return Error{
            static_cast<Status>(offer.status),
            fmt::format("rank {} could not share its part of connections: {}", r, offer.text)};
    return Error{Status::kInternalError, "a rank could not share its part of connections"};
  }

  const SharedConnectionsRequest& request_;
  ConnectionLayout layout_;
  std::shared_ptr<Holdings> holdings_;
  ConnectionMemory memory_;
  std::vector<Fd> files_, files_of_;  // own, in the order of ranks; by rank
  Fd host_file_;
  bool refused_ = false;
};

}  // namespace

Result<std::unique_ptr<DeviceConnections>> share_connections(SharedConnectionsRequest request) {
  constexpr int kAttempts = 2;
  const int n = static_cast<int>(request.devices.size());
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Sharing sharing(request);
    RONDO_TRY(const Verdict verdict, sharing.run());
    if (verdict == kWell) return sharing.connections();
    for (int a = 0; a < n; ++a)
      for (int b = 0; b < n; ++b)
        if (request.segment->refused(a, b) != 0) request.near[a][b] = request.near[b][a] = false;
  }
  return fail(Status::kSystemError, "ranks on GPUs could not map each other's memory");
}

}  // namespace rondo::gpu
