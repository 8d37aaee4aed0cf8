// SPDX-License-Identifier: Apache-2.0
#include "tests/watch/simulated_nccl.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

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
  void* const event = start(coll);
  enqueue({function, count, -1, event, ++calls_});
  stop(event);
  stop(in_group);
}

void SimulatedRank::message(bool is_send, int peer, std::size_t count) {
  auto group = event_of(abi::kGroupApi, nullptr, options_.rank);
  group.group_api = {false, 1};
  void* const in_group = start(group);
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
  void* const event = start(p2p);
  enqueue({function, count, peer, event, 0});
  stop(event);
  stop(in_group);
}

void SimulatedRank::enqueue(Work work) {
  std::lock_guard lock(mutex_);
  stream_.push_back(std::move(work));
  ++enqueued_;
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

void SimulatedRank::run_stream() {
  const auto own = static_cast<std::size_t>(options_.rank);
  const int before = (options_.rank + options_.ranks - 1) % options_.ranks;
  while (!over_) {
    Work work;
    {
      std::lock_guard lock(mutex_);
      if (!stream_.empty() && !blocked_) work = stream_.front();
    }
    if (work.function.empty()) {
      pause_briefly();
      continue;
    }
    std::vector<void*> kernels;
    for (unsigned channel = 0; channel < options_.channels; ++channel)
      kernels.push_back(start(event_of(abi::kKernelCh, work.event, options_.rank)));
    auto op = event_of(abi::kProxyOp, work.event, options_.rank);
    op.proxy_op = {getpid(), 0, before, 2, 1 << 19, 0};
    void* const transfer = options_.network ? start(op) : nullptr;
    auto step = event_of(abi::kProxyStep, transfer, options_.rank);
    void* const first = transfer == nullptr ? nullptr : start(step);
    if (first != nullptr) table_.record(first, abi::kRecvWait, nullptr);
    if (work.peer >= 0) {
      const auto peer = static_cast<std::size_t>(work.peer);
      const bool sends = work.function == "Send";
      auto& offers = sends ? comm_->offered[own][peer] : comm_->offered[peer][own];
      work.number = ++offers[sends ? 0 : 1];
    } else {
      comm_->what[own][work.number % 4] = std::hash<std::string>{}(work.function) + work.count;
      comm_->begun[own] = work.number;
    }
    while (!over_ && !may_end(work)) pause_briefly();
    if (over_) break;
    stop(first);
    stop(transfer);
    for (void* const kernel : kernels) stop(kernel);
    {
      std::lock_guard lock(mutex_);
      stream_.pop_front();
    }
    ++ended_;
  }
}

}  // namespace rondo::test
