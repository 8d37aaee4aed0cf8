// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/device/engine.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tests/simt/device/standstill.h"

namespace rondo::simt {
namespace {

using namespace std::chrono_literals;
constexpr auto kNothingMoves = 20us;  // pause before the device polls again
constexpr int kTurnsAtOnce = 32;      // max. turns of GPU threads between polls of the queues

thread_local bool runs_callback = false;

GangOptions gang_options(const Config& config) {
  GangOptions options;
  options.worker.seed = config.seed;
  options.worker.weak_memory = config.weak;
  options.worker.whole_lines = config.whole_lines;
  options.threads = config.threads;
  options.devices = config.devices;
  options.max_cooperative = config.cooperative;
  options.limits.multiprocessors = config.multiprocessors;
  return options;
}

int queue_count(const Config& config) {
  constexpr std::uint64_t kMaxQueues = 8;
  if (config.queues > 0) return config.queues;
  return 1 + static_cast<int>(Random(config.seed).below(kMaxQueues));
}

}  // namespace

Engine::Engine(AddressSpace& memory, const Config& config)
    : random_(config.seed ^ 0x5eed),
      config_(config),
      queues_(queue_count(config)),
      queued_(static_cast<std::size_t>(config.devices * queues_)),
      free_(static_cast<std::size_t>(config.devices)),
      gang_(memory, gang_options(config)),
      engine_random_(config.seed ^ 0xe4614e),
      slices_(config) {
  for (std::vector<int>& free : free_)
    for (int queue = 1; queue < queues_; ++queue) free.push_back(queue);
}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  pushed_.notify_all();
  if (thread_.joinable()) thread_.join();
  {
    const std::lock_guard lock(call_mutex_);
    calls_stop_ = true;
  }
  call_.notify_all();
  if (caller_.joinable()) caller_.join();
}

int Engine::queue_for_stream(int device) {
  if (!config_.own_queues)
    return static_cast<int>(random_.below(static_cast<std::uint64_t>(queues_)));
  std::vector<int>& free = free_[static_cast<std::size_t>(device)];
  if (free.empty()) {
    fmt::print(stderr, "device {} has more than {} streams: too many for queues=own\n", device,
               queues_ - 1);
    std::abort();
  }
  const int queue = free.front();
  free.erase(free.begin());
  return queue;
}

void Engine::give_back_queue(int device, int queue) {
  if (config_.own_queues) free_[static_cast<std::size_t>(device)].push_back(queue);
}

int Engine::queue_for_node(int of_stream) {
  if (config_.own_queues) return of_stream;
  return static_cast<int>(random_.below(static_cast<std::uint64_t>(queues_)));
}

bool Engine::in_callback() { return runs_callback; }

void Engine::push(CommandRef command) {
  command->number = ++made_;
  note_progress();
  queued_[static_cast<std::size_t>(command->device * queues_ + command->queue)].push_back(
      std::move(command));
  ++commands_;
  if (config_.own_thread && !thread_.joinable()) thread_ = std::thread([this] { loop(); });
  pushed_.notify_one();
}

bool Engine::has_room(int device) const {
  if (config_.commands == 0) return true;
  const auto is_full = [this](const std::deque<CommandRef>& queue) {
    if (queue.size() < config_.commands) return false;
    const auto of_graphs = std::count_if(queue.begin(), queue.end(),
                                         [](const CommandRef& one) { return one->is_node; });
    return queue.size() - static_cast<std::size_t>(of_graphs) >= config_.commands;
  };
  const auto first = queued_.begin() + device * queues_;
  return std::none_of(first, first + queues_, is_full);
}

void Engine::wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
  while (!done()) {
    report_standstill();
    if (config_.own_thread) {
      moved_.wait_for(lock, 1ms);
      continue;
    }
    lock.unlock();
    if (!turn()) std::this_thread::sleep_for(kNothingMoves);
    lock.lock();
  }
}

// Called once per standstill, which may still end by itself.
void Engine::report_standstill() {
  const double limit = config_.standstill_seconds;
  if (limit <= 0 || commands_ == 0 || reported_) return;
  const auto since = std::chrono::steady_clock::now() - moved_at_;
  if (std::chrono::duration<double>(since).count() < limit) return;
  reported_ = true;
  fmt::print(stderr,
             "emulated GPU, process {}: for {} s nothing has ended, while a call waits:\n{}",
             getpid(), limit, standstill_text(queued_, queues_));
  ++standstills_;
}

void Engine::note_progress() {
  moved_at_ = std::chrono::steady_clock::now();
  reported_ = false;
}

void Engine::call_host(std::function<void()> function) {
  {
    const std::lock_guard lock(call_mutex_);
    calls_.push_back(std::move(function));
    if (!caller_.joinable()) caller_ = std::thread([this] { call_loop(); });
  }
  call_.notify_one();
}

// Advances the head of one queue, chosen among those that can run.
bool Engine::begin_one() {
  std::unique_lock lock(mutex_);
  if (commands_ == 0) return false;
  const std::size_t start = engine_random_.below(queued_.size());
  for (std::size_t i = 0; i < queued_.size(); ++i) {
    std::deque<CommandRef>& queue = queued_[(start + i) % queued_.size()];
    if (queue.empty()) continue;
    const CommandRef command = queue.front();
    bool ready = true;
    for (const CommandRef& before : command->after) ready = ready && before->over;
    if (!ready) continue;
    lock.unlock();
    const Step step = command->step ? command->step() : Step::kOver;
    lock.lock();
    if (step == Step::kWaits) continue;
    if (step == Step::kMoved) return true;
    queue.pop_front();
    --commands_;
    note_progress();
    command->step = nullptr;
    command->after.clear();
    command->over_at = static_cast<std::uint64_t>(moved_at_.time_since_epoch().count());
    command->over = true;
    moved_.notify_all();
    return true;
  }
  return false;
}

bool Engine::turn() {
  const bool began = begin_one();
  Worker::Turn turn = Worker::Turn::kIdle;
  bool moved = false;
  const std::uint32_t allowed = slices_.allowed(gang_);
  // Also if all threads spin: with a pause after each poll, hundreds of threads would take seconds
  // to see that the host has ended their wait.
  for (auto left = 1 + engine_random_.below(kTurnsAtOnce); left > 0; --left) {
    turn = gang_.turn(allowed);
    moved = moved || turn == Worker::Turn::kMoved;
    if (turn == Worker::Turn::kIdle) break;
  }
  // Only the last turn: progress once a slice and then spinning keeps another process off the
  // device.
  slices_.used(gang_, turn);
  return began || moved;
}

void Engine::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (commands_ == 0) {
      pushed_.wait(lock);
      continue;
    }
    lock.unlock();
    const bool moved = turn();
    lock.lock();
    if (!moved && !stop_) pushed_.wait_for(lock, kNothingMoves);
  }
}

void Engine::call_loop() {
  runs_callback = true;
  std::unique_lock lock(call_mutex_);
  while (!calls_stop_) {
    if (calls_.empty()) {
      call_.wait(lock);
      continue;
    }
    const std::function<void()> function = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    function();
    lock.lock();
  }
}

}  // namespace rondo::simt
