// SPDX-License-Identifier: Apache-2.0
#include "collectives/profiler/describe.h"

#include <cstring>
#include <iterator>

namespace rondo::profiler {
namespace {

void set(const char*& to, const Named& named) { to = named.name; }
void set(std::uint8_t& to, const Named& named) { to = named.number; }

// Descriptors of one version. Members that a version does not have are left out.
template <class Descriptor>
struct Words {
  static void fill_coll(const Event& event, Descriptor& words) {
    const Call& call = *event.call;
    auto& coll = words.coll;
    coll.sequence = event.sequence;
    set(coll.function, name_of(call.record.collective));
    coll.send = call.send;
    coll.receive = call.receive;
    coll.count = call.record.count;
    coll.root = call.record.root;
    set(coll.type, name_of(call.record.type));
    coll.channels = static_cast<std::uint8_t>(event.way.channels);
    coll.warps = static_cast<std::uint8_t>(event.way.warps);
    set(coll.algorithm, event.way.algorithm);
    set(coll.protocol, event.way.protocol);
    fill_communicator(event, coll);
    fill_group(event, words, coll);
    if constexpr (requires { coll.op; }) coll.op = static_cast<std::uint32_t>(call.record.op);
    if constexpr (requires { coll.traffic_bytes; })
      coll.traffic_bytes = call.record.count * size_of(call.record.type);
  }

  static void fill_p2p(const Event& event, Descriptor& words) {
    const Call& call = *event.call;
    auto& p2p = words.p2p;
    const bool sends = call.record.collective == Collective::kSend;
    set(p2p.function, name_of(call.record.collective));
    p2p.buffer = sends ? const_cast<void*>(call.send) : call.receive;
    set(p2p.type, name_of(call.record.type));
    p2p.count = call.record.count;
    p2p.peer = call.peer;
    fill_communicator(event, p2p);
    fill_group(event, words, p2p);
    if constexpr (requires { p2p.channels; })
      p2p.channels = static_cast<std::uint8_t>(event.way.channels);
  }

  static void fill_api(const Event& event, Descriptor& words) {
    if constexpr (requires { words.group_api; }) {
      if (event.kind == abi::kGroupApi) words.group_api = {event.captured, event.depth};
      if (event.kind != abi::kCollApi && event.kind != abi::kP2pApi) return;
      const Call& call = *event.call;
      const char* const function = name_of(call.record.collective).name;
      const char* const type = name_of(call.record.type).name;
      if (event.kind == abi::kCollApi)
        words.coll_api = {function,         call.record.count, type,
                          call.record.root, call.stream,       event.captured};
      if (event.kind == abi::kP2pApi)
        words.p2p_api = {function, call.record.count, type, call.stream, event.captured};
    }
  }

  template <class Member>
  static void fill_communicator(const Event& event, Member& member) {
    if constexpr (requires { member.communicator; }) {
      member.name = event.name;
      member.communicator = event.communicator;
    }
  }
  template <class Member>
  static void fill_group(const Event& event, Descriptor& words, Member& member) {
    if constexpr (requires { member.group; }) {
      member.group = event.group;
    } else {
      words.parent = event.group;
    }
  }

  static int start(const abi::ProfilerTable& table, void* context, void** handle,
                   const Event& event) {
    Descriptor words;
    std::memset(static_cast<void*>(&words), 0, sizeof(words));
    words.kind = static_cast<decltype(words.kind)>(event.kind);
    words.parent = event.parent;
    words.rank = event.rank;
    if (event.kind == abi::kColl) fill_coll(event, words);
    if (event.kind == abi::kP2p) fill_p2p(event, words);
    fill_api(event, words);
    return table.start(context, handle, &words);
  }
};

int init_1(abi::Any init, void** context, int* mask, const About&) {
  return reinterpret_cast<abi::Init1>(init)(context, mask);
}
int init_4(abi::Any init, void** context, int* mask, const About& about) {
  return reinterpret_cast<abi::Init4>(init)(context, mask, about.name, about.communicator,
                                            about.hosts, about.ranks, about.rank, plugin::kLogger);
}
int init_5(abi::Any init, void** context, int* mask, const About& about) {
  return reinterpret_cast<abi::Init5>(init)(context, about.communicator, mask, about.name,
                                            about.hosts, about.ranks, about.rank, plugin::kLogger);
}

constexpr std::uint64_t below(abi::Kind kind) { return kind - 1; }

constexpr Version kTable[] = {
    {6, below(abi::kCeBatch) | abi::kCeBatch, init_5, Words<abi::Descriptor5>::start},
    {5, below(abi::kCeColl), init_5, Words<abi::Descriptor5>::start},
    {4, below(abi::kGroupApi), init_4, Words<abi::Descriptor4>::start},
    {3, below(abi::kGroupApi), init_1, Words<abi::Descriptor3>::start},
    {2, below(abi::kKernelCh), init_1, Words<abi::Descriptor2>::start},
    {1, below(abi::kKernelCh), init_1, Words<abi::Descriptor1>::start},
};

constexpr std::uint8_t kNoFunction = 15;  // NCCL's number of functions

Named named(Algorithm algorithm) {
  constexpr std::uint8_t kTree = 0, kRing = 1, kNvls = 4;
  switch (algorithm) {
    case Algorithm::kTree:
      return {"TREE", kTree};
    case Algorithm::kRing:
      return {"RING", kRing};
    case Algorithm::kNvls:
      return {"NVLS", kNvls};
    case Algorithm::kOneShot:
    case Algorithm::kTwoShot:
    case Algorithm::kDirect:
    case Algorithm::kRecursive:
    case Algorithm::kHierarchical:
      break;
  }
  return {name(algorithm).data(), kPat};
}

}  // namespace

constinit const std::span<const Version> kVersions = kTable;

Named name_of(Collective function) {
  constexpr std::uint8_t kNumbers[] = {kNoFunction, 4, 0, 1, 2, 3, 8, 10, 9};
  const auto index = static_cast<std::size_t>(function);
  std::uint8_t number = index < std::size(kNumbers) ? kNumbers[index] : kNoFunction;
  if (function == Collective::kSend) number = 6;
  if (function == Collective::kRecv) number = 7;
  return {name(function), number};
}

Named name_of(DataType type) {
  constexpr Named kNames[kDataTypes] = {
      {"ncclInt8", 0},    {"ncclUint8", 1},    {"ncclInt32", 2},       {"ncclUint32", 3},
      {"ncclInt64", 4},   {"ncclUint64", 5},   {"ncclFloat16", 6},     {"ncclFloat32", 7},
      {"ncclFloat64", 8}, {"ncclBfloat16", 9}, {"ncclFloat8e4m3", 10}, {"ncclFloat8e5m2", 11},
      {"rondoInt16", 64}, {"rondoUint16", 65}};
  return kNames[static_cast<std::size_t>(type)];
}

Way way_of(std::uint8_t algorithm, std::uint8_t protocol) {
  Way way;
  if (algorithm < kAlgorithmCount) way.algorithm = named(static_cast<Algorithm>(algorithm));
  if (protocol == static_cast<std::uint8_t>(Protocol::kSimple)) {
    way.protocol = {"SIMPLE", kSimple};
  } else if (protocol <= static_cast<std::uint8_t>(Protocol::kRead)) {
    way.protocol = {name(static_cast<Protocol>(protocol)), kSimple};
  }
  return way;
}

Way way_of(const gpu::DevicePlan& plan) {
  constexpr int kWarp = 32;  // threads
  constexpr std::uint8_t kLL = 0, kLL128 = 1;
  Way way;
  way.algorithm = named(plan.algorithm);
  way.protocol = plan.protocol == cuda::Protocol::kLL      ? Named{"LL", kLL}
                 : plan.protocol == cuda::Protocol::kLL128 ? Named{"LL128", kLL128}
                                                           : Named{"SIMPLE", kSimple};
  way.channels = plan.channels;
  way.warps = static_cast<int>(plan.threads) / kWarp;
  return way;
}

}  // namespace rondo::profiler
