#include "collectives/gpu/device_windows.h"

#include <cstring>
#include <mutex>

#include "collectives/communicator/communicator_state.h"
#include "collectives/gpu/pointers.h"
#include "transport/cuda/device.h"
#include "transport/cuda/device_memory.h"
#include "transport/shm/fd_passing.h"
#include "transport/shm/unix_meeting.h"

namespace rondo::gpu {

// What a rank tells the others of its window; as it travels.
struct DeviceWindows::Offer {
  enum Kind : std::uint64_t { kNoDeviceMemory, kOwnProcessOnly, kIpc, kFile };
  Kind kind = kNoDeviceMemory;
  std::uint64_t pointer = 0;                // in its own process
  std::uint64_t bytes = 0;                  // of the window
  std::uint64_t offset = 0;                 // in the allocation,
  std::uint64_t allocation_bytes = 0;       // which is as long
  GpuIpcHandle ipc{};                       // kIpc
  char socket[shm::kMostSocketName + 1]{};  // kFile: where it is handed out
};

DeviceWindows::~DeviceWindows() {
  for (int i = 0; i < static_cast<int>(windows_.size()); ++i) close(i);
}

void DeviceWindows::close(int window) {
  if (window < 0 || window >= static_cast<int>(windows_.size())) return;
  const DeviceScope scope(state_.options.device);
  for (const OpenedMemory& memory : windows_[window].mapped) close_memory(memory);
  windows_[window].at.clear();
  windows_[window].mapped.clear();
}

Result<std::byte*> DeviceWindows::address(int window, int peer) const {
  const Window& found = windows_[window];
  if (found.at.empty())
    return fail(Status::kInvalidArgument, "PutSignal : the window is not registered any more");
  if (found.at[peer] != nullptr) return found.at[peer];
  return fail(Status::kInvalidUsage,
              "PutSignal : rank {} cannot put into the window of rank {}: {}", state_.members.rank,
              peer, found.why_not[peer]);
}

bool DeviceWindows::is_neighbour(int peer) const {
  return state_.members.local_of(peer) >= 0 &&
         state_.members.ranks[peer].process != state_.members.ranks[state_.members.rank].process;
}

DeviceWindows::Offer DeviceWindows::offer_of(void* memory, std::size_t bytes, Fd* file,
                                             Done* why) const {
  Offer offer;
  offer.bytes = bytes;
  auto on_device = device_address(memory, state_.options.device, Collective::kPut, "window");
  if (!on_device.ok()) {
    *why = on_device.error();
    return offer;
  }
  offer.pointer = reinterpret_cast<std::uintptr_t>(*on_device);
  offer.kind = Offer::kOwnProcessOnly;
  void* base = nullptr;
  std::size_t whole = 0;
  if (const auto block = find_shareable(*on_device, bytes)) {
    base = block->base;
    whole = block->bytes;
  } else if (gpu_api()->address_range(&base, &whole, *on_device) != kGpuSuccess) {
    return offer;
  }
  auto handle = share_memory(static_cast<std::byte*>(base), whole);
  if (!handle.ok()) return offer;
  offer.kind = handle->file ? Offer::kFile : Offer::kIpc;
  offer.offset = static_cast<std::uint64_t>(static_cast<std::byte*>(*on_device) -
                                            static_cast<std::byte*>(base));
  offer.allocation_bytes = whole;
  offer.ipc = handle->ipc;
  *file = std::move(handle->file);
  return offer;
}

// All whom it concerns meet at once; one file serves all who come.
Result<std::vector<Fd>> DeviceWindows::exchange_files(const std::vector<Offer>& all, const Fd& own,
                                                      const shm::UnixListener& listener) const {
  const auto limit = std::chrono::duration<double>(state_.options.init_timeout_seconds);
  shm::UnixMeetingRequest asked;
  asked.secret = state_.secret.derive("window", std::as_bytes(std::span(&asked_, 1))).bytes();
  asked.self = state_.members.rank;
  asked.listener = &listener;
  asked.deadline =
      net::Deadline::of(std::chrono::duration_cast<std::chrono::nanoseconds>(limit), [this] {
        return state_.faults.ended() != FaultState::kRunning || state_.faults.is_raised();
      });
  for (int r = 0; r < state_.members.size; ++r) {
    if (!is_neighbour(r)) continue;
    if (own) asked.guests.push_back({r, ""});
    if (all[r].kind == Offer::kFile) asked.hosts.push_back({r, all[r].socket});
  }
  RONDO_TRY(const shm::UnixMeeting met, shm::meet_by_unix(asked));
  if (const std::string missing = met.missing(); !missing.empty())
    return fail(Status::kRemoteError, "CommWindowRegister : {}", missing);
  const int file = own.get();
  for (const auto& guest : met.guests)
    RONDO_CHECK_OK(shm::send_fds(guest.socket.get(), 0, {&file, 1}, asked.deadline));
  std::vector<Fd> files(state_.members.size);
  for (std::size_t h = 0; h < met.hosts.size(); ++h) {
    const int r = asked.hosts[h].index;
    RONDO_TRY(shm::FdMessage message, shm::receive_fds(met.hosts[h].socket.get(), asked.deadline));
    if (message.fds.size() != 1)
      return fail(Status::kRemoteError, "rank {} sent no memory for its window", r);
    files[r] = std::move(message.fds[0]);
  }
  return files;
}

void DeviceWindows::map(const Offer& offer, int peer, Fd file, Window* window) const {
  if (state_.members.ranks[peer].process == state_.members.ranks[state_.members.rank].process) {
    window->at[peer] = reinterpret_cast<std::byte*>(offer.pointer);
    return;
  }
  if (!is_neighbour(peer)) {
    window->why_not[peer] = "it is on another host, where GPUs pass no puts";
    return;
  }
  if (offer.kind == Offer::kOwnProcessOnly) {
    window->why_not[peer] = "its memory cannot be shared; allocate it with ncclMemAlloc";
    return;
  }
  SharedHandle handle;
  handle.bytes = offer.allocation_bytes;
  handle.file = std::move(file);
  handle.ipc = offer.ipc;
  const auto opened = open_memory(handle, state_.options.device);
  if (!opened.ok()) {
    window->why_not[peer] = opened.error().text;
    return;
  }
  window->mapped.push_back(*opened);
  window->at[peer] = opened->at + offer.offset;
}

Result<int> DeviceWindows::open(Communicator& self, void* memory, std::size_t bytes) {
  const RelaxedCapture relaxed;
  const DeviceScope scope(state_.options.device);
  ++asked_;
  RONDO_CHECK_OK(scope.entered());
  Done why;
  Fd file;
  Offer mine = offer_of(memory, bytes, &file, &why);
  shm::UnixListener listener;
  if (file) {
    RONDO_TRY(listener, shm::open_unix_listener());
    listener.name.copy(mine.socket, shm::kMostSocketName);
  }
  RONDO_TRY(const auto told,
            self.exchange("CommWindowRegister", std::as_bytes(std::span(&mine, 1))));
  std::vector<Offer> all(told.size());
  for (std::size_t r = 0; r < told.size(); ++r) std::memcpy(&all[r], told[r].data(), sizeof(Offer));
  RONDO_CHECK_OK(why);
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].kind == Offer::kNoDeviceMemory)
      return fail(Status::kInvalidArgument,
                  "CommWindowRegister : rank {}'s window is no memory that its CUDA device reaches",
                  r);
  RONDO_TRY(std::vector<Fd> files, exchange_files(all, file, listener));
  Window made;
  made.at.resize(all.size());
  made.why_not.resize(all.size());
  for (int r = 0; r < state_.members.size; ++r) {
    made.bytes.push_back(all[r].bytes);
    map(all[r], r, std::move(files[r]), &made);
  }
  windows_.push_back(std::move(made));
  return static_cast<int>(windows_.size()) - 1;
}

}  // namespace rondo::gpu
