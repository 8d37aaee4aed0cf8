// SPDX-License-Identifier: Apache-2.0
#include "tests/watch/simulated_nccl.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

namespace rondo::test {
namespace {

namespace abi = profiler::abi;

void log_nothing(int, unsigned long, const char*, int, const char*, ...) {}

void pause_briefly() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

abi::Descriptor5 event_of(abi::Kind kind, void* parent, int rank) {
  abi::Descriptor5 event{};
  event.kind = kind;
  event.parent = parent;
  event.rank = rank;
  return event;
}

}  // namespace

std::shared_ptr<SimulatedComm> make_simulated_comm() {
  void* const memory = mmap(nullptr, sizeof(SimulatedComm), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return {static_cast<SimulatedComm*>(memory),
          [](SimulatedComm* comm) { munmap(comm, sizeof(*comm)); }};
}

const abi::ProfilerTable& plugin_table(const std::string& file, int version) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::string symbol = "ncclProfiler_v" + std::to_string(version);
  const void* const table = library == nullptr ? nullptr : dlsym(library, symbol.c_str());
  if (table == nullptr) std::fprintf(stderr, "%s\n", dlerror());
  if (table == nullptr) std::abort();
  return *static_cast<const abi::ProfilerTable*>(table);
}

SimulatedRank::SimulatedRank(const Options& options, std::shared_ptr<SimulatedComm> comm)
    : options_(options),
      table_(plugin_table(options.plugin, options.version)),
      comm_(std::move(comm)) {
  const plugin::Logger logger = log_nothing;
  if (options_.version == 4) {
    reinterpret_cast<abi::Init4>(table_.init)(&context_, &mask_, options_.name.c_str(),
                                              options_.hash, options_.hosts, options_.ranks,
                                              options_.rank, logger);
  } else {
    reinterpret_cast<abi::Init5>(table_.init)(&context_, options_.hash, &mask_,
                                              options_.name.c_str(), options_.hosts, options_.ranks,
                                              options_.rank, logger);
  }
  gpu_ = std::thread([this] { run_stream(); });
}

SimulatedRank::~SimulatedRank() {
  over_ = true;
  gpu_.join();
  finish();
}

void SimulatedRank::finish() {
  if (context_ != nullptr) table_.finish(std::exchange(context_, nullptr));
}

void* SimulatedRank::start(abi::Descriptor5 event) {
  void* handle = nullptr;
  if ((static_cast<unsigned>(mask_) & event.kind) == 0 || context_ == nullptr) return nullptr;
  table_.start(context_, &handle, &event);
  return handle;
}

void SimulatedRank::stop(void* event) {
  if (event != nullptr) table_.stop(event);
}

void SimulatedRank::collective(const char* function, std::size_t count, int root) {
  collective(function, count, root, true);
}

void SimulatedRank::collective(const char* function, std::size_t count, int root, bool has_event) {
  auto group = event_of(abi::kGroupApi, nullptr, options_.rank);
  group.group_api = {false, 1};
  void* const in_group = start(group);
  auto api = event_of(abi::kCollApi, in_group, options_.rank);
  api.coll_api = {function, count, "ncclFloat32", root, nullptr, false};
  void* const call = start(api);
  stop(call);
  auto coll = event_of(abi::kColl, call, options_.rank);
  coll.coll.sequence = calls_;
  coll.coll.function = function;
  coll.coll.count = count;
  coll.coll.root = root;
  coll.coll.type = "ncclFloat32";
  coll.coll.channels = static_cast<std::uint8_t>(options_.channels);
  coll.coll.warps = 16;
  coll.coll.algorithm = "RING";
  coll.coll.protocol = "LL";
  void* const event = has_event ? start(coll) : nullptr;
  enqueue({{function, count, -1, event, ++calls_}});
  stop(event);
  stop(in_group);
}

SimulatedRank::Work SimulatedRank::post(bool is_send, int peer, std::size_t count, void* in_group) {
  auto api = event_of(abi::kP2pApi, in_group, options_.rank);
  const char* const function = is_send ? "Send" : "Recv";
  api.p2p_api = {function, count, "ncclFloat32", nullptr, false};
  void* const call = start(api);
  stop(call);
  auto p2p = event_of(abi::kP2p, call, options_.rank);
  p2p.p2p.function = function;
  p2p.p2p.type = "ncclFloat32";
  p2p.p2p.count = count;
  p2p.p2p.peer = peer;
  p2p.p2p.channels = static_cast<std::uint8_t>(options_.channels);
  return {function, count, peer, start(p2p), 0};
}

void SimulatedRank::message(bool is_send, int peer, std::size_t count) {
  auto group = event_of(abi::kGroupApi, nullptr, options_.rank);
  group.group_api = {false, 1};
  void* const in_group = start(group);
  const Work work = post(is_send, peer, count, in_group);
  enqueue({work});
  stop(work.event);
  stop(in_group);
}

void SimulatedRank::exchange(const std::vector<int>& peers, std::size_t count) {
  auto group = event_of(abi::kGroupApi, nullptr, options_.rank);
  group.group_api = {false, 1};
  void* const in_group = start(group);
  std::vector<Work> works;
  for (const int peer : peers)
    for (const bool is_send : {true, false}) works.push_back(post(is_send, peer, count, in_group));
  for (std::size_t i = 0; i + 1 < works.size(); ++i) works[i].goes_on = true;
  enqueue(works);
  for (const Work& work : works) stop(work.event);
  stop(in_group);
}

void SimulatedRank::enqueue(const std::vector<Work>& works) {
  std::lock_guard lock(mutex_);
  stream_.insert(stream_.end(), works.begin(), works.end());
  enqueued_ += works.size();
}

void SimulatedRank::wait_for_gpu(std::size_t open) {
  while (enqueued_ - ended_ > open && !over_) pause_briefly();
}

bool SimulatedRank::may_end(const Work& work) const {
  const auto own = static_cast<std::size_t>(options_.rank);
  if (work.peer >= 0) {
    const auto peer = static_cast<std::size_t>(work.peer);
    const bool sends = work.function == "Send";
    const auto& offers = sends ? comm_->offered[own][peer] : comm_->offered[peer][own];
    return offers[0] >= work.number && offers[1] >= work.number;
  }
  if (comm_->down_from != 0 && work.number >= comm_->down_from) return false;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (comm_->begun[r] < work.number) return false;
    if (comm_->begun[r] < work.number + 4 &&
        comm_->what[r][work.number % 4] != comm_->what[own][work.number % 4])
      return false;
  }
  return true;
}

// Its events go to `events`.
void SimulatedRank::begin(Work& work, std::vector<void*>* events) {
  const auto own = static_cast<std::size_t>(options_.rank);
  const int before = (options_.rank + options_.ranks - 1) % options_.ranks;
  auto op = event_of(abi::kProxyOp, work.event, options_.rank);
  op.proxy_op = {getpid(), 0, before, 2, 1 << 19, 0};
  void* const transfer = options_.network && work.event != nullptr ? start(op) : nullptr;
  auto step = event_of(abi::kProxyStep, transfer, options_.rank);
  void* const first = transfer == nullptr ? nullptr : start(step);
  if (first != nullptr) table_.record(first, abi::kRecvWait, nullptr);
  events->insert(events->end(), {first, transfer});
  for (unsigned channel = 0; work.event != nullptr && channel < options_.channels; ++channel)
    events->push_back(start(event_of(abi::kKernelCh, work.event, options_.rank)));
  if (work.peer >= 0) {
    const auto peer = static_cast<std::size_t>(work.peer);
    const bool sends = work.function == "Send";
    auto& offers = sends ? comm_->offered[own][peer] : comm_->offered[peer][own];
    work.number = ++offers[sends ? 0 : 1];
  } else {
    comm_->what[own][work.number % 4] = std::hash<std::string>{}(work.function) + work.count;
    comm_->begun[own] = work.number;
  }
}

void SimulatedRank::run_stream() {
  while (!over_) {
    std::vector<Work> kernel;
    {
      std::lock_guard lock(mutex_);
      if (!blocked_)
        for (const Work& work : stream_) {
          kernel.push_back(work);
          if (!work.goes_on) break;
        }
    }
    if (kernel.empty()) {
      pause_briefly();
      continue;
    }
    std::vector<void*> events;
    for (Work& work : kernel) begin(work, &events);
    const auto may_end_all = [&] {
      return std::all_of(kernel.begin(), kernel.end(),
                         [&](const Work& work) { return may_end(work); });
    };
    while (!over_ && !may_end_all()) pause_briefly();
    if (over_) break;
    for (void* const event : events) stop(event);
    {
      std::lock_guard lock(mutex_);
      stream_.erase(stream_.begin(), stream_.begin() + static_cast<std::ptrdiff_t>(kernel.size()));
    }
    ended_ += kernel.size();
  }
}

}  // namespace rondo::test
