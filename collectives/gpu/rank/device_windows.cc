// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/rank/device_windows.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/log.h"
#include "base/seconds.h"
#include "collectives/gpu/calls/pointers.h"
#include "collectives/gpu/rank/first_refusal.h"
#include "collectives/gpu/rank/window_memory.h"
#include "collectives/host/rank_state.h"
#include "transport/cuda/device.h"
#include "transport/shm/unix_meeting.h"

namespace rondo::gpu {

// A rank's data about its window, as exchanged.
struct DeviceWindows::Offer {
  std::uint64_t pointer = 0;               // in its own process; 0: not device memory
  std::uint64_t bytes = 0;                 // of the window
  std::uint64_t symmetric = 0;             // 1: collectives may use it
  PlainHandle handle;                      // of the allocation that contains the window
  PlainHandle object;                      // rank 0's: of multicast memory for all
  std::int64_t object_file = -1;           // and its descriptor in rank 0's process
  char socket[shm::kMaxSocketName + 1]{};  // socket that sends files
  WindowKeys keys;                         // of the network between hosts,
  char why_not[240]{};                     // or why the network does not write there
};

struct DeviceWindows::Offers {
  std::vector<Offer> all;
  std::vector<MemoryHandle> handles;
  MemoryHandle object;  // rank 0's, of multicast memory, if it has one
};

DeviceWindows::~DeviceWindows() {
  for (int i = 0; i < static_cast<int>(windows_.size()); ++i) close(i);
}

void DeviceWindows::close(int window) {
  if (window < 0 || window >= static_cast<int>(windows_.size())) return;
  const DeviceScope scope(state_.options.device);
  windows_[window].symmetric = false;
  windows_[window].at.clear();
  const bool faulted = state_.faults.is_raised() || state_.faults.ended() != FaultState::kRunning;
  if (windows_[window].multicast && faulted)
    windows_[window].multicast->keep_for(MulticastMemory::kOthersEnd);
  windows_[window].multicast.reset();
  windows_[window].mapped.clear();
  withdraw(&windows_[window]);
}

net::Deadline DeviceWindows::deadline() const {
  return net::Deadline::of(to_nanoseconds(state_.options.init_timeout_seconds), [this] {
    return state_.faults.ended() != FaultState::kRunning || state_.faults.is_raised();
  });
}

// Afterwards no peer writes there. If the rank has already ended, its RemotePuts ensure this.
void DeviceWindows::withdraw(Window* window) {
  const int number = std::exchange(window->by_network, -1);
  window->named = nullptr;
  if (number < 0 || state_.forked() || state_.device == nullptr) return;
  const auto step = [&]() -> Result<bool> {
    state_.one_sided.remote_puts().close(number);
    return true;
  };
  const Status gone = hosted_->errands().run(
      step, net::Deadline::of(to_nanoseconds(state_.options.init_timeout_seconds)),
      "deregistering a window from the network");
  if (!gone.ok()) RONDO_WARN("rank {}: {}", state_.members.rank, gone.error().text);
}

bool DeviceWindows::is_by_network() const {
  return hosted_ != nullptr && state_.one_sided.remote_puts().usable();
}

// On the thread that owns the links.
Status DeviceWindows::offer_to_network(void* memory, std::size_t bytes, Offer* mine,
                                       Window* window) const {
  RemotePuts& puts = state_.one_sided.remote_puts();
  std::string why_not = fmt::format("{} has no one-sided writes", state_.network);
  const auto step = [&]() -> Result<bool> {
    const DeviceScope scope(state_.options.device);  // first: any other call makes a context
    RONDO_CHECK_OK(scope.entered());
    const RelaxedCapture relaxed;
    const WindowMemory named =
        WindowMemory::of(memory, bytes, state_.options.device,
                         state_.remote.links()->data_network(), state_.members.near_nics());
    why_not = named.why_not;
    RONDO_CHECK_OK(hosted_->lend_staging());
    mine->keys = puts.offer(named.ways, &why_not);
    window->by_network = puts.newest();
    if (puts.sends_from({named.named, bytes})) window->named = named.named;
    return true;
  };
  Status gathered = ok_status();
  if (is_by_network())
    gathered = hosted_->errands().run(step, deadline(), "registering a window with the network");
  why_not.copy(mine->why_not, sizeof(mine->why_not) - 1);
  if (mine->keys.memory_bytes == 0 && is_by_network())
    RONDO_INFO(kNet, "rank {}: the network cannot write into its window of {} bytes: {}",
               state_.members.rank, bytes, why_not);
  return gathered;
}

Status DeviceWindows::meet_by_network(const Offers& offers, Window* window) const {
  window->written.assign(offers.all.size(), false);
  if (window->by_network < 0) return ok_status();
  std::vector<WindowKeys> keys;
  for (const Offer& offer : offers.all) keys.push_back(offer.keys);
  RemotePuts& puts = state_.one_sided.remote_puts();
  const auto step = [&]() -> Result<bool> {
    RONDO_TRY(const bool open, puts.try_open(keys));
    for (std::size_t r = 0; open && r < keys.size(); ++r)
      window->written[r] = puts.reaches(window->by_network, static_cast<int>(r));
    return open;
  };
  return hosted_->errands().run(step, deadline(), "opening links for puts to other hosts");
}

const std::byte* DeviceWindows::name_to_network(const void* memory, std::size_t bytes) const {
  const auto own = static_cast<std::size_t>(state_.members.rank);
  const auto* const begin = static_cast<const std::byte*>(memory);
  for (const Window& window : windows_)
    if (window.named != nullptr && begin >= window.at[own] &&
        begin + bytes <= window.at[own] + window.bytes[own])
      return window.named + (begin - window.at[own]);
  return nullptr;
}

Result<DeviceWindows::Target> DeviceWindows::place(int window, int peer) const {
  const Window& found = windows_[window];
  if (found.at.empty())
    return fail(StatusCode::kInvalidArgument, "PutSignal : the window is no longer registered");
  if (found.at[peer] != nullptr) return Target{found.at[peer]};
  if (found.written[peer]) return Target{nullptr, found.by_network};
  return fail(StatusCode::kInvalidUsage,
              "PutSignal : rank {} cannot put into the window of rank {}: {}", state_.members.rank,
              peer, found.why_not[peer]);
}

DeviceWindows::Held DeviceWindows::held(int window, int peer) const {
  Held held = windows_[window].held[peer];
  if (!windows_[window].at.empty()) held.at = windows_[window].at[peer];
  return held;
}

bool DeviceWindows::is_neighbour(int peer) const {
  return state_.members.local_of(peer) >= 0 &&
         state_.members.ranks[peer].process != state_.members.ranks[state_.members.rank].process;
}

DeviceWindows::Offer DeviceWindows::offer_of(void* memory, std::size_t bytes, MemoryHandle* handle,
                                             Status* why) const {
  Offer offer;
  offer.bytes = bytes;
  auto on_device = BufferAddresses(state_.options.device).of(memory, Collective::kPut, "window");
  if (!on_device.ok()) {
    *why = on_device.error();
    return offer;
  }
  offer.pointer = reinterpret_cast<std::uintptr_t>(*on_device);
  auto exported = memory_registry().export_range(*on_device, bytes);
  if (exported.ok()) *handle = std::move(*exported);
  offer.handle = handle->plain;
  return offer;
}

// All ranks involved meet at once; one file serves all of them.
Status DeviceWindows::exchange_handles(const MemoryHandle& own, const shm::UnixListener& listener,
                                       Offers* offers) const {
  const std::vector<Offer>& all = offers->all;
  shm::UnixMeetingRequest asked;
  asked.secret = state_.secret.derive("window", std::as_bytes(std::span(&asked_, 1))).bytes();
  asked.self = state_.members.rank;
  asked.listener = &listener;
  asked.deadline = deadline();
  for (int r = 0; r < state_.members.size; ++r) {
    if (!is_neighbour(r)) continue;
    if (own.file) asked.guests.push_back({r, ""});
    if (all[r].handle.kind == PlainHandle::kFile) asked.hosts.push_back({r, all[r].socket});
  }
  RONDO_TRY(const shm::UnixMeeting meeting, shm::meet_by_unix(asked));
  if (const std::string missing = meeting.missing(); !missing.empty())
    return fail(StatusCode::kRemoteError, "CommWindowRegister : {}", missing);
  for (const auto& guest : meeting.guests)
    RONDO_CHECK_OK(send_files(guest.socket.get(), {&own, &offers->object}, asked.deadline));
  for (const Offer& offer : all) offers->handles.push_back({offer.handle, Fd()});
  for (std::size_t h = 0; h < meeting.hosts.size(); ++h) {
    const int r = asked.hosts[h].index;
    RONDO_TRY(auto received, receive_handles(meeting.hosts[h].socket.get(),
                                             {&all[r].handle, &all[r].object}, asked.deadline));
    if (!received[0].file)
      return fail(StatusCode::kRemoteError, "rank {} sent no memory for its window", r);
    offers->handles[r] = std::move(received[0]);
    if (r == 0) offers->object = std::move(received[1]);
  }
  return ok_status();
}

void DeviceWindows::map(const Offer& offer, int peer, const MemoryHandle& handle,
                        Window* window) const {
  const bool on_host = state_.members.local_of(peer) >= 0;
  if (on_host && !team_->reaches(state_.members.rank, peer)) {
    window->why_not[peer] = "their GPUs do not use each other's memory (no P2P): use ncclSend";
    return;
  }
  if (state_.members.ranks[peer].process == state_.members.ranks[state_.members.rank].process) {
    window->at[peer] = reinterpret_cast<std::byte*>(offer.pointer);
    return;
  }
  if (!is_neighbour(peer)) {
    window->why_not[peer] = fmt::format(
        "it is on another host, and the network cannot write there ({}): use ncclSend and ncclRecv",
        offer.why_not);
    return;
  }
  if (handle.plain.kind == PlainHandle::kNone) {
    window->why_not[peer] = "its memory cannot be shared; allocate it with ncclMemAlloc";
    return;
  }
  const auto memory = memory_registry().import_memory(handle, {&state_.options.device, 1});
  if (!memory.ok()) {
    window->why_not[peer] = memory.error().text;
    return;
  }
  window->mapped.push_back(*memory);
  window->at[peer] = memory->get() + (offer.pointer - handle.plain.base);
}

// Access by kernels of its device; checked also for ranks of one process, whose memory may have its
// own access list.
Result<bool> DeviceWindows::all_may_touch(const Exchange& exchange, const Window& window) const {
  bool may = true;
  for (std::size_t r = 0; r < window.at.size() && may; ++r) {
    GpuPointer info;
    may = window.at[r] != nullptr && window.bytes[r] == window.bytes[0] &&
          gpu_api()->pointer_info(&info, window.at[r]) == kGpuSuccess;
    if (may && info.own_access)
      may = gpu_api()->may_access(&may, window.at[r], state_.options.device) == kGpuSuccess && may;
  }
  const std::byte mine{may};
  RONDO_TRY(const auto gathered, exchange({&mine, 1}));
  return std::all_of(gathered.begin(), gathered.end(),
                     [](const auto& one) { return one[0] == std::byte{1}; });
}

const std::vector<std::byte*>* DeviceWindows::symmetric_at(const void* buffer,
                                                           std::size_t bytes) const {
  const auto own = static_cast<std::size_t>(state_.members.rank);
  const auto* const begin = static_cast<const std::byte*>(buffer);
  for (const Window& window : windows_)
    if (window.symmetric && begin >= window.at[own] &&
        begin + bytes <= window.at[own] + window.bytes[own])
      return &window.at;
  return nullptr;
}

// Needs memory that can be mapped by address, and that multicast memory was requested.
std::unique_ptr<MulticastMemory> DeviceWindows::new_multicast(const MemoryHandle& own,
                                                              MemoryHandle* object) const {
  if (state_.members.rank != 0 || !team_->has_multicast()) return nullptr;
  std::unique_ptr<MulticastMemory> made = multicast_of_own();
  const Status created = made->create(own.plain.bytes);
  auto handle = created.ok() ? made->handle() : Result<MemoryHandle>(created.error());
  if (handle.ok()) {
    *object = std::move(*handle);
    return made;
  }
  RONDO_WARN("a window has no multicast memory (NVLS): {}", handle.error().text);
  return nullptr;
}

std::unique_ptr<MulticastMemory> DeviceWindows::multicast_of_own() const {
  return std::make_unique<MulticastMemory>(state_.members.size, state_.members.rank,
                                           state_.options.device);
}

// One multicast address serves all ranks only at equal offsets of allocations of equal size.
bool DeviceWindows::may_bind(const Offers& offers) {
  const Offer& first = offers.all[0];
  return first.object.kind == PlainHandle::kFile &&
         std::all_of(offers.all.begin(), offers.all.end(), [&](const Offer& one) {
           return one.handle.kind == PlainHandle::kFile && one.handle.bytes == first.handle.bytes &&
                  one.pointer - one.handle.base == first.pointer - first.handle.base;
         });
}

Status DeviceWindows::bind_all(const Exchange& exchange, const Offers& offers,
                               Window* window) const {
  const int rank = state_.members.rank;
  const auto join = [&]() -> Status {
    if (rank == 0) return window->multicast->add();
    window->multicast = multicast_of_own();
    MemoryHandle object = offers.object.clone();
    if (!is_neighbour(0)) {  // rank 0 is in this process
      object.plain = offers.all[0].object;
      object.file = Fd::duplicate_of(static_cast<int>(offers.all[0].object_file));
    }
    RONDO_CHECK_OK(window->multicast->open(object));
    return window->multicast->add();
  };
  RONDO_TRY(bool could, all_could(exchange, join()));
  if (could) {
    const Offer& own = offers.all[static_cast<std::size_t>(rank)];
    RONDO_TRY(could, all_could(exchange, window->multicast->bind_own(
                                             reinterpret_cast<std::byte*>(own.handle.base))));
  }
  if (!could) window->multicast.reset();
  return ok_status();
}

Result<bool> DeviceWindows::all_could(const Exchange& exchange, const Status& own) {
  RONDO_TRY(const auto refusal, first_refusal(exchange, own));
  if (refusal)
    RONDO_WARN("a window has no multicast memory (NVLS), since rank {} could not join: {}",
               refusal->rank, refusal->text);
  return !refusal;
}

Result<int> DeviceWindows::open(const Exchange& exchange, void* memory, std::size_t bytes,
                                bool symmetric) {
  const DeviceScope scope(state_.options.device);
  ++asked_;
  RONDO_CHECK_OK(scope.entered());
  const RelaxedCapture relaxed;
  Window made;
  if (const Status opened = meet(exchange, memory, bytes, symmetric, &made); !opened.ok()) {
    withdraw(&made);
    return opened.error();
  }
  windows_.push_back(std::move(made));
  return static_cast<int>(windows_.size()) - 1;
}

Status DeviceWindows::meet(const Exchange& exchange, void* memory, std::size_t bytes,
                           bool symmetric, Window* window) {
  Window& made = *window;
  Status why;
  MemoryHandle own;
  Offer mine = offer_of(memory, bytes, &own, &why);
  mine.symmetric = symmetric ? 1 : 0;
  if (why.ok() && state_.facts.hosts > 1) {
    why = offer_to_network(memory, bytes, &mine, &made);
    if (!why.ok()) mine.pointer = 0;
  }
  Offers offers;
  if (symmetric && own.file) made.multicast = new_multicast(own, &offers.object);
  mine.object = offers.object.plain;
  mine.object_file = offers.object.file.get();
  shm::UnixListener listener;
  if (own.file) {
    RONDO_TRY(listener, shm::open_unix_listener());
    listener.name.copy(mine.socket, shm::kMaxSocketName);
  }
  RONDO_TRY(const auto gathered, exchange(std::as_bytes(std::span(&mine, 1))));
  std::vector<Offer>& all = offers.all;
  all.resize(gathered.size());
  for (std::size_t r = 0; r < gathered.size(); ++r)
    std::memcpy(&all[r], gathered[r].data(), sizeof(Offer));
  RONDO_CHECK_OK(why);
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].pointer == 0)
      return fail(
          StatusCode::kInvalidArgument,
          "CommWindowRegister : rank {}'s window is not memory that its CUDA device can access", r);
  RONDO_CHECK_OK(exchange_handles(own, listener, &offers));
  made.at.resize(all.size());
  made.why_not.resize(all.size());
  for (int r = 0; r < state_.members.size; ++r) {
    made.bytes.push_back(all[r].bytes);
    made.held.push_back({nullptr, all[r].pointer - all[r].handle.base, all[r].handle.bytes,
                         all[r].handle.kind == PlainHandle::kFile});
    map(all[r], r, offers.handles[r], &made);
  }
  made.asked_symmetric =
      std::all_of(all.begin(), all.end(), [](const Offer& one) { return one.symmetric != 0; });
  if (made.asked_symmetric) {
    RONDO_TRY(made.symmetric, all_may_touch(exchange, made));
    if (!made.symmetric || !may_bind(offers))
      made.multicast.reset();
    else
      RONDO_CHECK_OK(bind_all(exchange, offers, &made));
    const Offer& own_offer = all[static_cast<std::size_t>(state_.members.rank)];
    made.at.push_back(made.multicast == nullptr
                          ? nullptr
                          : made.multicast->all() + (own_offer.pointer - own_offer.handle.base));
  }
  return meet_by_network(offers, &made);
}

}  // namespace rondo::gpu
