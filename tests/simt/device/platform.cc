// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/device/platform.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "tests/simt/device/poison.h"
#include "tests/simt/device/table.h"
#include "tests/simt/machine/violation.h"

namespace rondo::simt {
namespace {

constexpr std::size_t kPage = 4096;

std::mutex& making() {
  static std::mutex* const mutex = new std::mutex;
  return *mutex;
}
std::atomic<Platform*> only{nullptr};

}  // namespace

Platform& platform() {
  if (Platform* const made = only.load(std::memory_order_acquire)) return *made;
  const std::lock_guard lock(making());
  if (only.load() == nullptr) only = new Platform(Config::from_environment());
  return *only.load();
}

void replace_platform(const Config& config) {
  const std::lock_guard lock(making());
  Platform* const old = only.exchange(nullptr);
  // After a fork, it is the parent's: its threads do not exist here.
  if (old != nullptr && old->process == getpid()) delete old;
  Platform* const made = new Platform(config);
  only = made;
  current_device() = std::max(made->device_of(0), 0);
  has_context() = false;
  current_capture_mode() = 0;
}

int& current_device() {
  thread_local int device = std::max(platform().device_of(0), 0);
  return device;
}
bool& has_context() {
  thread_local bool made = false;
  return made;
}
int& current_capture_mode() {
  thread_local int mode = 0;
  return mode;
}
std::uint64_t current_thread() {
  static std::atomic<std::uint64_t> threads{0};
  thread_local const std::uint64_t number = ++threads;
  return number;
}

Platform::Platform(const Config& of)
    : config(of),
      visible(of.visible_devices()),
      devices(static_cast<std::size_t>(of.devices)),
      process(getpid()),
      engine(memory, of) {
  set_reproducer(config.reproducer());
  for (int d = 0; d < config.devices; ++d) {
    Device& device = devices[static_cast<std::size_t>(d)];
    device.legacy = {d, 0, 0, false, nullptr, nullptr, {}};
    device.file = memfd_create(fmt::format("rondo-simt-{}", d).c_str(), MFD_CLOEXEC);
    if (device.file < 0 || ftruncate(device.file, AddressSpace::kRange) != 0) std::abort();
  }
}

Platform::~Platform() {
  for (const Device& device : devices) close(device.file);
  for (const auto& [id, shareable] : shareables)
    if (shareable.file >= 0) close(shareable.file);
}

int Platform::number_of(int device) const {
  const auto found = std::find(visible.begin(), visible.end(), device);
  return found == visible.end() ? -1 : static_cast<int>(found - visible.begin());
}

std::vector<int> devices_with_context() {
  std::vector<int> found;
  const std::vector<Device>& all = platform().devices;
  for (std::size_t d = 0; d < all.size(); ++d)
    if (all[d].has_context) found.push_back(static_cast<int>(d));
  return found;
}

GpuError Platform::trouble() const {
  has_context() = true;
  if (!devices.empty()) devices[static_cast<std::size_t>(current_device())].has_context = true;
  return driver_trouble();
}

GpuError Platform::trouble_without_context(const char* call) const {
  constexpr GpuError kInvalidContext = 201;
  if (has_context()) return driver_trouble();
  report(Violation::kContext,
         fmt::format("{} by a thread to which no context is current: it has bound no device and "
                     "made no call of the runtime",
                     call));
  return kInvalidContext;
}

GpuError Platform::driver_trouble() const {
  if (getpid() != process) return kInitializationError;
  if (Engine::in_callback()) return kGpuNotPermitted;
  if (visible.empty()) return kGpuNoDevice;
  return devices[static_cast<std::size_t>(current_device())].sticky;
}

Stream* Platform::stream(GpuStream handle) {
  constexpr std::uintptr_t kPerThread = 2;
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number < kPerThread) return &devices[static_cast<std::size_t>(current_device())].legacy;
  if (number == kPerThread) return per_thread_stream();
  const auto found = streams.find(reinterpret_cast<Stream*>(handle));
  return found == streams.end() ? nullptr : found->second.get();
}

// Made when the thread first uses it; a blocking stream, as in CUDA.
Stream* Platform::per_thread_stream() {
  const int device = current_device();
  Stream*& of_thread = per_thread[{current_thread(), device}];
  if (of_thread == nullptr) {
    const int queue = engine.queue_for_stream(device);
    auto made = std::make_unique<Stream>(
        Stream{device, queue, 0, true, nullptr, nullptr, {}, ++streams_made});
    of_thread = made.get();
    streams.emplace(of_thread, std::move(made));
  }
  return of_thread;
}

Event* Platform::event(GpuEvent handle) {
  const auto found = events.find(reinterpret_cast<Event*>(handle));
  return found == events.end() ? nullptr : found->second.get();
}

GpuError Platform::submit(Stream* stream, Operation operation) {
  const std::lock_guard lock(engine.mutex());
  if (stream == nullptr) return kGpuInvalidHandle;
  return submit_locked(*stream, std::move(operation));
}

void Platform::wait_for_room(int device) {
  std::unique_lock lock(engine.mutex(), std::adopt_lock);
  engine.wait(lock, [&] { return engine.has_room(device); });
  lock.release();
}

GpuError Platform::submit_locked(Stream& stream, Operation operation) {
  if (stream.capture == nullptr) wait_for_room(stream.device);
  if (Capture* const capture = stream.capture.get()) {
    if (capture->invalidated) return kGpuCaptureInvalidated;
    capture->graph.nodes.push_back({std::move(operation), stream.frontier});
    stream.frontier = {capture->graph.nodes.size() - 1};
    return kGpuSuccess;
  }
  Device& device = devices[static_cast<std::size_t>(stream.device)];
  const bool legacy = &stream == &device.legacy;
  std::vector<CommandRef> after{stream.newest};
  if (legacy) {
    for (const auto& [key, other] : streams) {
      if (other->device != stream.device || !other->waits_for_legacy) continue;
      if (other->capture != nullptr) return invalidate(*other->capture, kCaptureImplicit);
      after.push_back(other->newest);
    }
  } else if (stream.waits_for_legacy) {
    after.push_back(device.legacy.newest);
  }
  stream.newest = enqueue(stream, operation, stream.queue, std::move(after));
  return kGpuSuccess;
}

CommandRef Platform::enqueue(Stream& stream, const Operation& operation, int queue,
                             std::vector<CommandRef> after) {
  auto command = std::make_shared<Command>();
  command->what = operation.what;
  command->device = operation.device >= 0 ? operation.device : stream.device;
  command->queue = queue;
  command->stream = stream.number;
  command->after = std::move(after);
  if (operation.prepare) operation.prepare(*command);
  std::erase_if(command->after, [](const CommandRef& one) { return one == nullptr || one->over; });
  if (command->step) {
    const Device& device = devices[static_cast<std::size_t>(command->device)];
    command->step = [&device, step = std::move(command->step)] {
      return device.sticky != kGpuSuccess ? Step::kOver : step();
    };
  }
  engine.push(command);
  return command;
}

GpuError Platform::invalidate(Capture& capture, GpuError error) {
  capture.invalidated = true;
  return error;
}

GpuError Platform::unsafe_while_capturing() {
  constexpr int kGlobal = 0, kRelaxed = 2;
  const int mode = current_capture_mode();
  if (mode == kRelaxed) return kGpuSuccess;
  for (const auto& capture : captures) {
    const bool own = capture->thread == current_thread();
    if ((own && capture->mode != kRelaxed) ||
        (!own && mode == kGlobal && capture->mode == kGlobal)) {
      return invalidate(*capture, kGpuCaptureUnsupported);
    }
  }
  return kGpuSuccess;
}

bool Platform::reaches(int device, int peer) const {
  if (device == peer || config.mig != 0) return false;
  switch (config.p2p) {
    case Config::PeerAccess::kAll:
    case Config::PeerAccess::kLost:
    case Config::PeerAccess::kCopies:
      return true;
    case Config::PeerAccess::kNone:
      return false;
    case Config::PeerAccess::kPairs:
      break;
  }
  return device / 2 == peer / 2;
}

std::uint32_t Platform::who_may_touch(int owner) const {
  std::uint32_t bits = 1u << owner;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if ((devices[d].peers >> owner & 1) != 0) bits |= 1u << d;
  }
  return bits;
}

std::uint32_t Platform::who_may_touch_pool(int owner) const {
  return 1u << owner | devices[static_cast<std::size_t>(owner)].pool_users;
}

bool Platform::has_memory(int device, std::size_t bytes) {
  ++allocations;
  if (config.out_of_memory != 0 && allocations >= config.out_of_memory) return false;
  return bytes <= (config.memory_mib << 20) - devices[static_cast<std::size_t>(device)].used;
}

Allocation* Platform::take_memory(int device, std::size_t bytes, std::uint32_t access) {
  constexpr std::size_t kAlignment = 256;  // the minimum that CUDA guarantees
  Device& on = devices[static_cast<std::size_t>(device)];
  const std::uint64_t reserved = memory.reserve(bytes + kPage);
  if (reserved == 0) return nullptr;
  const std::uint64_t at = reserved + kAlignment * (2 * engine.random().below(8) + 1);
  Allocation* const made =
      memory.map(at, bytes, on.file, memory.offset_of(at), device, access, false);
  if (made == nullptr) return nullptr;
  on.used += bytes;
  poison(made->real, bytes);
  return made;
}

void Platform::give_back(Allocation& allocation) {
  memory.release(allocation);
  // The file's pages are freed only when the process ends: a running copy may still use them.
  Device& on = devices[static_cast<std::size_t>(allocation.device)];
  on.used -= allocation.bytes;
  const std::uint64_t first = (allocation.file_offset + kPage - 1) / kPage * kPage;
  const std::uint64_t last = (allocation.file_offset + allocation.bytes) / kPage * kPage;
  if (last > first)
    fallocate(on.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
              static_cast<off_t>(last - first));
}

std::vector<CommandRef> Platform::all_newest(int device) const {
  std::vector<CommandRef> all{devices[static_cast<std::size_t>(device)].legacy.newest};
  for (const auto& [key, stream] : streams) {
    if (stream->device == device) all.push_back(stream->newest);
  }
  std::erase(all, nullptr);
  return all;
}

void Platform::wait_as_free(std::unique_lock<std::mutex>& lock, int device) {
  constexpr std::chrono::milliseconds kUnmapping(5);
  wait_until_idle(lock, device);
  lock.unlock();
  std::this_thread::sleep_for(kUnmapping);
  lock.lock();
  wait_until_idle(lock, device);
}

void Platform::wait_until_idle(std::unique_lock<std::mutex>& lock, int device) {
  const std::vector<CommandRef> newest = all_newest(device);
  engine.wait(lock, [&] {
    return std::all_of(newest.begin(), newest.end(),
                       [](const auto& one) { return bool(one->over); });
  });
}

}  // namespace rondo::simt
