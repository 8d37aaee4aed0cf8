// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/rank/device_comms.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>

#include "base/log.h"
#include "collectives/gpu/rank/first_refusal.h"
#include "collectives/gpu/rank/multicast_place.h"
#include "collectives/host/rank_state.h"
#include "transport/cuda/deferred_free.h"
#include "transport/cuda/device.h"
#include "transport/memory/memory_registry.h"
#include "transport/memory/virtual_memory.h"

namespace rondo::gpu {
namespace {

// The records, then the tables, each at a multiple of kTablePitch.
constexpr std::size_t kTablePitch = 1024;
constexpr std::size_t kTablesAt = DeviceComms::kMaxWindows * sizeof(WindowRecord);
constexpr int kTables = DeviceComms::kMaxWindows / WindowTable::kEntries;
constexpr std::size_t kRecordBytes = 2 << 20;
static_assert(kTablesAt + kTables * kTablePitch <= kRecordBytes);
static_assert(sizeof(WindowTable) <= kTablePitch);

// Windows that ranks try to map at once: an answer for each in one exchange.
constexpr int kWindowsAtOnce = 32;

template <class T>
T from(const std::vector<std::byte>& bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value{};
  std::memcpy(&value, bytes.data(), std::min(sizeof(value), bytes.size()));
  return value;
}

Status check_number(int window, const char* function) {
  if (window < DeviceComms::kMaxWindows) return ok_status();
  return fail(StatusCode::kInvalidUsage,
              "{} : this would be window {} of the communicator, and kernels find its first {}, "
              "those included that are no longer registered: make a new communicator",
              function, window + 1, DeviceComms::kMaxWindows);
}

}  // namespace

DeviceComms::DeviceComms(RankState& state, DeviceWindows& windows, int lsa_size)
    : state_(state), windows_(windows), lsa_size_(lsa_size) {
  assert(lsa_size > 0);
}

DeviceComms::~DeviceComms() {
  if (state_.forked()) return;
  stop();
  const bool faulted = state_.faults.is_raised() || state_.faults.ended() != FaultState::kRunning;
  if (!ready_ || !faulted) return;
  if (waits_for_ever_) keep_all();
  const auto until = std::chrono::steady_clock::now() + kOthersEnd;
  UnfinishedWork().leave(
      [until] { return [until] { return std::chrono::steady_clock::now() >= until; }; });
}

// Kernels of old headers may wait in this memory as long as the process lives.
void DeviceComms::keep_all() {
  struct Kept {
    OwnMemory records;
    std::map<int, Mapped> mapped;
    std::vector<Made> made;
  };
  static std::mutex mutex;
  static auto& all = *new std::vector<Kept>;  // never destroyed
  std::lock_guard lock(mutex);
  all.push_back({std::move(records_), std::move(mapped_), std::move(made_)});
}

int DeviceComms::rank() const { return state_.members.rank; }
int DeviceComms::first_of_team() const { return rank() / lsa_size_ * lsa_size_; }

void* DeviceComms::at_record(int window) const {
  return records_.get() + static_cast<std::size_t>(window) * sizeof(WindowRecord);
}

void* DeviceComms::record_of(int window) {
  if (window >= kMaxWindows) return nullptr;
  if (!records_) {
    const RelaxedCapture relaxed;
    auto reserved = memory_registry().reserve_own(kRecordBytes, state_.options.device);
    if (!reserved.ok()) return nullptr;
    records_ = std::move(*reserved);
  }
  return at_record(window);
}

// Every rank gets the error of the first that has one.
Status DeviceComms::agree(const Exchange& exchange, const Status& own) const {
  RONDO_TRY(const auto refusal, first_refusal(exchange, own));
  if (!refusal) return ok_status();
  return fail(refusal->code, "{}: {}", state_.members.name_of(refusal->rank), refusal->text);
}

Status DeviceComms::agree_on(const Exchange& exchange, const DeviceCommRequest& request) const {
  RONDO_TRY(const auto gathered, exchange(std::as_bytes(std::span(&request, 1))));
  const auto first = from<DeviceCommRequest>(gathered[0]);
  for (std::size_t r = 0; r < gathered.size(); ++r) {
    const auto other = from<DeviceCommRequest>(gathered[r]);
    if (other.buffer_bytes != first.buffer_bytes || other.multicast != first.multicast)
      return fail(StatusCode::kInvalidUsage,
                  "DevCommCreate : the requirements of rank {} ask for {} bytes{}, those of rank 0 "
                  "for {} bytes{}: they must be equal on all ranks",
                  r, other.buffer_bytes, other.multicast ? " and multicast" : "",
                  first.buffer_bytes, first.multicast ? " and multicast" : "");
    if (other.digest != first.digest)
      return fail(StatusCode::kInvalidUsage,
                  "DevCommCreate : the requirements of rank {} ask for other barriers or buffers, "
                  "of {} bytes in all, than those of rank 0: they must be equal on all ranks",
                  r, first.buffer_bytes);
  }
  return ok_status();
}

Status DeviceComms::write(void* at, const void* from, std::size_t bytes) const {
  const GpuApi& api = *gpu_api();
  GpuStream stream = nullptr;
  RONDO_CHECK_OK(check(api.create_stream(&stream, 0), "cudaStreamCreate"));
  GpuError error = from != nullptr ? api.copy(at, from, bytes, GpuCopy::kHostToDevice, stream)
                                   : api.fill(at, 0, bytes, stream);
  if (error == kGpuSuccess) error = api.synchronize_stream(stream);
  api.destroy_stream(stream);
  return check(error, "writing data for kernels of the device API");
}

Result<OwnMemory> DeviceComms::zeroed(std::uint64_t bytes) const {
  RONDO_TRY(OwnMemory made, memory_registry().allocate_own(bytes, state_.options.device));
  RONDO_CHECK_OK(write(made.get(), nullptr, bytes));
  return made;
}

// Gives the records memory: none is mapped yet, and the tables are empty and linked.
Status DeviceComms::activate() {
  if (ready_) return ok_status();
  if (record_of(0) == nullptr)
    return fail(StatusCode::kSystemError, "CUDA device {} has no addresses left for windows",
                state_.options.device);
  RONDO_TRY(OwnMemory word, allocate_pinned(sizeof(std::uint32_t), "pinned memory for aborts"));
  new (word.get()) std::atomic<std::uint32_t>(0);
  {
    std::lock_guard lock(mutex_);
    abort_word_ = std::move(word);
  }
  RONDO_CHECK_OK(memory_registry().virtual_at(records_.get())->bring_back());
  std::vector<std::byte> image(kRecordBytes);
  for (int t = 0; t + 1 < kTables; ++t) {
    WindowTable table;
    table.next = records_.get() + kTablesAt + static_cast<std::size_t>(t + 1) * kTablePitch;
    std::memcpy(&image[kTablesAt + static_cast<std::size_t>(t) * kTablePitch], &table,
                sizeof(table));
  }
  RONDO_CHECK_OK(write(records_.get(), image.data(), image.size()));
  device_bytes_ += kRecordBytes;
  ready_ = true;
  return ok_status();
}

// For this rank alone: its team's windows, and where kernels find them.
Result<DeviceComms::Mapped> DeviceComms::map(int window) const {
  const DeviceScope scope(state_.options.device);
  RONDO_CHECK_OK(scope.entered());
  const RelaxedCapture relaxed;
  Mapped made;
  made.record.lsa_rank = rank() % lsa_size_;
  made.record.world_rank = rank();
  const DeviceWindows::Held own = windows_.held(window, rank());
  if (lsa_size_ == 1) {
    made.record.flat_base = own.at;
    return made;
  }
  std::vector<StridedMemory::Place> places;
  for (int r = first_of_team(); r < first_of_team() + lsa_size_; ++r) {
    const DeviceWindows::Held held = windows_.held(window, r);
    if (held.at == nullptr)
      return fail(StatusCode::kInvalidUsage, "the window of rank {}: {}", r,
                  windows_.why_not(window, r));
    if (!held.by_file)
      return fail(StatusCode::kInvalidUsage,
                  "the window of rank {} is memory that cannot be exported, as that of cudaMalloc: "
                  "use ncclMemAlloc",
                  r);
    if (held.offset != own.offset)
      return fail(StatusCode::kInvalidUsage,
                  "the window of rank {} begins {} bytes into its allocation, that of rank {} {} "
                  "bytes: it must be the same on all ranks",
                  r, held.offset, rank(), own.offset);
    places.push_back({held.at - held.offset, held.allocated});
  }
  RONDO_TRY(made.memory, StridedMemory::map(places, state_.options.device));
  made.record.flat_base = made.memory->base() + own.offset;
  made.record.stride_4g = static_cast<std::uint32_t>(made.memory->stride() / StridedMemory::kUnit);
  return made;
}

// Maps those of windows [first, end) that all ranks can map. An error (of a rank whose GPU cannot
// be written, or where the window `by_multicast` has no multicast memory) maps none of them.
Status DeviceComms::map_range(const Exchange& exchange, int first, int end, int by_multicast) {
  std::map<int, Mapped> tried;
  std::vector<Answer> mine;
  for (int window = first; window < end; ++window) {
    Status own;
    if (!windows_.is_open(window)) {
      own = fail(StatusCode::kInvalidUsage, "it is no longer registered");
    } else {
      auto made = map(window);
      if (made.ok())
        tried[window] = std::move(*made);
      else
        own = made.error();
    }
    mine.push_back(Answer::of(own));
  }
  RONDO_TRY(const auto gathered, exchange(std::as_bytes(std::span(mine))));
  std::vector<int> added;
  Status published;
  for (int window = first; window < end; ++window) {
    if (const auto refusal = first_refusal_in(gathered, static_cast<std::size_t>(window - first))) {
      if (windows_.is_open(window) && windows_.asked_symmetric(window))
        RONDO_WARN("kernels cannot use window {} of {} bytes, since rank {} could not map it: {}",
                   window, windows_.bytes(window, rank()), refusal->rank, refusal->text);
      continue;
    }
    mapped_[window] = std::move(tried.at(window));
    added.push_back(window);
    if (published.ok()) published = publish(window, window == by_multicast);
  }
  Status agreed = agree(exchange, published);
  if (!agreed.ok())
    for (const int window : added) window_closes(window);
  return agreed;
}

// Up to this window, those that the ranks have not tried yet: they try each once.
Status DeviceComms::map_up_to(const Exchange& exchange, int window, bool by_multicast) {
  while (settled_ <= window) {
    const int end = std::min(window + 1, settled_ + kWindowsAtOnce);
    RONDO_CHECK_OK(map_range(exchange, settled_, end, by_multicast ? window : -1));
    settled_ = end;
  }
  return ok_status();
}

Status DeviceComms::write_entry(int window, const WindowTable::Entry& entry) const {
  const std::size_t table = static_cast<std::size_t>(window / WindowTable::kEntries);
  const std::size_t at = static_cast<std::size_t>(window % WindowTable::kEntries);
  return write(records_.get() + kTablesAt + table * kTablePitch + at * sizeof(entry), &entry,
               sizeof(entry));
}

// must: the window is of no use without.
Status DeviceComms::set_multicast(int window, bool must, WindowRecord* record) {
  const auto at = reinterpret_cast<std::uint64_t>(windows_.multicast_at(window));
  if (at == 0 && must)
    return fail(StatusCode::kInvalidUsage,
                "DevCommCreate : multicast memory was asked for (lsaMultimem), and there is none: "
                "it needs a switch between the GPUs, and NCCL_NVLS_ENABLE=1");
  if (at == 0) return ok_status();
  if (const auto place = multicast_place(at, multicast_base_)) {
    multicast_base_ = place->base;
    record->multicast_4k = place->page;
    return ok_status();
  }
  const std::string why = fmt::format(
      "kernels cannot use the multicast memory of window {}, which is at {:#x}: it must begin at "
      "a multiple of {} bytes, within 16 TiB behind {:#x}",
      window, at, MulticastPlace::kPage, multicast_base_.value_or(0));
  if (must) return fail(StatusCode::kInvalidUsage, "DevCommCreate : {}", why);
  RONDO_WARN("{}", why);
  return ok_status();
}

Status DeviceComms::publish(int window, bool must_have_multicast) {
  WindowRecord& record = mapped_.at(window).record;
  RONDO_CHECK_OK(set_multicast(window, must_have_multicast, &record));
  const DeviceScope scope(state_.options.device);
  RONDO_CHECK_OK(scope.entered());
  const RelaxedCapture relaxed;
  record.on_host = at_record(window);
  RONDO_CHECK_OK(write(at_record(window), &record, sizeof(record)));
  const std::byte* const own = windows_.held(window, rank()).at;
  return write_entry(window, {reinterpret_cast<std::uint64_t>(own), windows_.bytes(window, rank()),
                              at_record(window)});
}

Status DeviceComms::window_opened(const Exchange& exchange, int window) {
  if (!active_ || (window >= kMaxWindows && !windows_.asked_symmetric(window))) return ok_status();
  RONDO_CHECK_OK(check_number(window, "CommWindowRegister"));
  return map_up_to(exchange, window, false);
}

void DeviceComms::window_closes(int window) {
  const auto found = mapped_.find(window);
  if (found == mapped_.end()) return;
  if (!state_.forked()) {
    const DeviceScope scope(state_.options.device);
    const RelaxedCapture relaxed;
    const WindowRecord none;
    if (scope.entered().ok()) {
      (void)write_entry(window, {}).ok();
      (void)write(at_record(window), &none, sizeof(none)).ok();
    }
  }
  mapped_.erase(found);
}

Result<DeviceComm> DeviceComms::create(const Exchange& exchange, const DeviceCommRequest& request) {
  const DeviceScope scope(state_.options.device);
  RONDO_CHECK_OK(scope.entered());
  const RelaxedCapture relaxed;
  RONDO_CHECK_OK(agree_on(exchange, request));
  OwnMemory buffers;
  const std::uint64_t bytes = std::max<std::uint64_t>(request.buffer_bytes, 128);
  const auto prepare = [&]() -> Status {
    RONDO_CHECK_OK(activate());
    RONDO_TRY(buffers, zeroed(bytes));
    return ok_status();
  };
  RONDO_CHECK_OK(agree(exchange, prepare()));
  active_ = true;
  RONDO_TRY(const int own, windows_.open(exchange, buffers.get(), bytes, true));
  const auto finish = [&]() -> Status {  // alike on all ranks
    RONDO_CHECK_OK(check_number(own, "DevCommCreate"));
    RONDO_CHECK_OK(map_up_to(exchange, own, request.multicast));
    if (mapped_.contains(own)) return ok_status();
    return fail(StatusCode::kInvalidUsage,
                "DevCommCreate : the ranks cannot map each other's memory (see the warning)");
  };
  if (const Status finished = finish(); !finished.ok()) {
    window_closes(own);
    windows_.close(own);
    return finished.error();
  }
  const Mapped& mapped = mapped_.at(own);
  waits_for_ever_ = waits_for_ever_ || !request.reads_abort;
  made_.push_back({own, std::move(buffers), bytes});
  device_bytes_ += bytes;
  DeviceComm comm;
  comm.lsa_rank = mapped.record.lsa_rank;
  comm.lsa_size = lsa_size_;
  comm.window_table = records_.get() + kTablesAt;
  comm.resource_window = at_record(own);
  comm.resource = mapped.record;
  if (request.multicast) comm.multicast_base = reinterpret_cast<std::byte*>(*multicast_base_);
  comm.abort_word = reinterpret_cast<std::uint32_t*>(abort_word_.get());
  return comm;
}

Status DeviceComms::destroy(const void* resource_window) {
  const auto found = std::find_if(made_.begin(), made_.end(), [&](const Made& one) {
    return at_record(one.window) == resource_window;
  });
  if (found == made_.end())
    return fail(
        StatusCode::kInvalidArgument,
        "DevCommDestroy : this communicator has no device communicator with resources at {}",
        resource_window);
  window_closes(found->window);
  windows_.close(found->window);
  device_bytes_ -= found->bytes;
  made_.erase(found);
  return ok_status();
}

Result<std::byte*> DeviceComms::address_of(int window, int lsa_rank, std::uint64_t offset) const {
  if (lsa_rank == kMulticast) {
    if (const std::byte* all = windows_.multicast_at(window); all != nullptr)
      return const_cast<std::byte*>(all) + offset;
    return fail(StatusCode::kInvalidUsage,
                "the window has no multicast memory (NVLS): it needs a switch between the GPUs, "
                "NCCL_NVLS_ENABLE=1, and symmetric windows of ncclMemAlloc");
  }
  const int peer = first_of_team() + lsa_rank;
  if (const auto found = mapped_.find(window); found != mapped_.end()) {
    const WindowRecord& record = found->second.record;
    return record.flat_base +
           static_cast<std::uint64_t>(lsa_rank) * record.stride_4g * StridedMemory::kUnit + offset;
  }
  const DeviceWindows::Held held = windows_.held(window, peer);
  if (held.at != nullptr) return held.at + offset;
  return fail(StatusCode::kInvalidUsage, "rank {} cannot reach the window of rank {}: {}", rank(),
              peer, windows_.why_not(window, peer));
}

void DeviceComms::stop() const {
  std::lock_guard lock(mutex_);
  if (abort_word_) reinterpret_cast<std::atomic<std::uint32_t>*>(abort_word_.get())->store(1);
}

}  // namespace rondo::gpu
