// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/device/config.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace rondo::simt {
namespace {

[[noreturn]] void refuse(std::string_view what) {
  std::fprintf(stderr, "emulated GPU: %.*s; see tests/simt/device/config.h\n",
               static_cast<int>(what.size()), what.data());
  std::exit(1);
}

std::uint64_t number(std::string_view name, const std::string& text) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0')
    refuse(fmt::format("{} is '{}', which is not a number", name, text));
  return value;
}

void set_mode(Config& config, const std::string& mode) {
  constexpr int kParallelThreads = 2;
  if (mode == "weak") {
    config.weak = true;
  } else if (mode == "parallel") {
    config.threads = kParallelThreads;
  } else if (mode != "seed") {
    refuse(fmt::format("RONDO_SIMT has mode '{}'; there are seed, weak and parallel", mode));
  }
}

void set_p2p(Config& config, const std::string& p2p) {
  if (p2p == "none") {
    config.p2p = Config::PeerAccess::kNone;
  } else if (p2p == "pairs") {
    config.p2p = Config::PeerAccess::kPairs;
  } else if (p2p == "lost") {
    config.p2p = Config::PeerAccess::kLost;
  } else if (p2p == "copies") {
    config.p2p = Config::PeerAccess::kCopies;
  } else if (p2p != "all") {
    refuse(
        fmt::format("RONDO_SIMT has p2p '{}'; there are all, none, pairs, lost and copies", p2p));
  }
}

void set_lines(Config& config, const std::string& lines) {
  if (lines != "torn" && lines != "whole")
    refuse(fmt::format("RONDO_SIMT has lines '{}'; there are torn and whole", lines));
  config.whole_lines = lines == "whole";
}

void set_frees(Config& config, const std::string& frees) {
  if (frees != "wait" && frees != "chance")
    refuse(fmt::format("RONDO_SIMT has frees '{}'; there are wait and chance", frees));
  config.frees_wait = frees == "wait";
}

void set_registers(Config& config, const std::string& registers) {
  if (registers != "wait" && registers != "now")
    refuse(fmt::format("RONDO_SIMT has registers '{}'; there are wait and now", registers));
  config.registers_wait = registers == "wait";
}

// The device that an entry of CUDA_VISIBLE_DEVICES names; -1: none, or several.
int named_device(std::string_view entry, int devices, bool mig) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!entry.empty() && entry.size() < 9 && std::all_of(entry.begin(), entry.end(), is_digit)) {
    const int device = std::atoi(std::string(entry).c_str());
    return device < devices ? device : -1;
  }
  constexpr std::size_t kPrefix = 4;
  if (entry.size() <= kPrefix) return -1;
  int found = -1;
  for (int device = 0; device < devices; ++device) {
    if (!uuid_text(device, mig).starts_with(entry)) continue;
    if (found >= 0) return -1;
    found = device;
  }
  return found;
}

// Bus ids of the <pci> elements whose class is a display controller.
std::vector<std::string> gpus_in(const std::string& path) {
  const std::ifstream file(path);
  if (!file) refuse(fmt::format("RONDO_SIMT has topology '{}', which cannot be read", path));
  std::ostringstream read;
  read << file.rdbuf();
  const std::string text = read.str();
  const auto value = [&](std::string_view tag, std::string_view name) {
    const std::size_t at = tag.find(fmt::format(" {}=\"", name));
    if (at == tag.npos) return std::string();
    const std::size_t from = at + name.size() + 3;
    return std::string(tag.substr(from, tag.find('"', from) - from));
  };
  std::vector<std::string> gpus;
  for (std::size_t at = text.find("<pci "); at != text.npos; at = text.find("<pci ", at + 1)) {
    const std::string_view tag = std::string_view(text).substr(at, text.find('>', at) - at);
    if (value(tag, "class").starts_with("0x03")) gpus.push_back(value(tag, "busid"));
  }
  return gpus;
}

void set_topology(Config& config, const std::string& path) {
  config.topology = path;
  config.bus_ids = gpus_in(path);
  if (config.bus_ids.empty())
    refuse(fmt::format("RONDO_SIMT has topology '{}', which has no GPUs", path));
}

void set_ordering(Config& config, const std::string& ordering) {
  if (ordering != "owner" && ordering != "none")
    refuse(fmt::format("RONDO_SIMT has ordering '{}'; there are owner and none", ordering));
  config.ordered_writes = ordering == "owner";
}

void set_kinds(Config& config, const std::string& kinds) {
  if (kinds != "equal" && kinds != "mixed")
    refuse(fmt::format("RONDO_SIMT has kinds '{}'; there are equal and mixed", kinds));
  config.mixed = kinds == "mixed";
}

void set(Config& config, const std::string& key, const std::string& value) {
  if (key == "mode") return set_mode(config, value);
  if (key == "p2p") return set_p2p(config, value);
  if (key == "topology") return set_topology(config, value);
  if (key == "lines") return set_lines(config, value);
  if (key == "frees") return set_frees(config, value);
  if (key == "registers") return set_registers(config, value);
  if (key == "ordering") return set_ordering(config, value);
  if (key == "kinds") return set_kinds(config, value);
  if (key == "queues" && value == "own") {
    config.queues = 32;
    config.own_queues = true;
    return;
  }
  const std::uint64_t n = number("a value in RONDO_SIMT", value);
  if (key == "queues") {
    config.queues = static_cast<int>(n);
  } else if (key == "multiprocessors") {
    config.multiprocessors = static_cast<int>(n);
  } else if (key == "memory") {
    config.memory_mib = n;
  } else if (key == "mig") {
    config.mig = static_cast<int>(n);
  } else if (key == "commands") {
    config.commands = n;
  } else if (key == "slices") {
    config.slices = static_cast<int>(n);
  } else if (key == "pace") {
    config.pace = n;
  } else if (key == "standstill") {
    config.standstill_seconds = static_cast<double>(n);
  } else if (key == "cooperative") {
    config.cooperative = static_cast<int>(n);
  } else if (key == "multicast") {
    config.multicast = n != 0;
  } else if (key == "dmabuf") {
    config.dmabuf = n != 0;
  } else if (key == "fabric") {
    config.fabric = static_cast<int>(n);
  } else if (key == "imex") {
    config.imex = n != 0;
  } else if (key == "flushes") {
    config.flushes = n != 0;
  } else if (key == "out_of_memory") {
    config.out_of_memory = n;
  } else if (key == "lost") {
    config.lost = n;
  } else {
    refuse(fmt::format("RONDO_SIMT does not know '{}'", key));
  }
}

}  // namespace

Config Config::from_environment() {
  Config config;
  if (const char* devices = std::getenv("RONDO_SIMT_DEVICES"))
    config.devices = static_cast<int>(number("RONDO_SIMT_DEVICES", devices));
  if (config.devices > kMaxDevices)
    refuse(fmt::format("RONDO_SIMT_DEVICES is {}, at most {}", config.devices, kMaxDevices));
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) config.visible = visible;
  if (const char* seed = std::getenv("RONDO_SIMT_SEED"))
    config.seed = number("RONDO_SIMT_SEED", seed);
  if (const char* connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"))
    config.queues = static_cast<int>(number("CUDA_DEVICE_MAX_CONNECTIONS", connections));
  const char* const blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  config.blocking_launches = blocking != nullptr && std::string_view(blocking) == "1";
  const char* const loading = std::getenv("CUDA_MODULE_LOADING");
  config.lazy_loading = loading == nullptr || std::string_view(loading) != "EAGER";
  const char* const rest = std::getenv("RONDO_SIMT");
  std::string_view left = rest == nullptr ? "" : rest;
  while (!left.empty()) {
    const std::size_t comma = std::min(left.find(','), left.size());
    const std::string_view one = left.substr(0, comma);
    const std::size_t equal = one.find('=');
    if (equal == one.npos) refuse(fmt::format("RONDO_SIMT has '{}', which is not name=value", one));
    set(config, std::string(one.substr(0, equal)), std::string(one.substr(equal + 1)));
    left.remove_prefix(std::min(comma + 1, left.size()));
  }
  return config;
}

std::string Config::reproducer() const {
  std::string text = fmt::format("RONDO_SIMT_DEVICES={} RONDO_SIMT_SEED={}", devices, seed);
  const char* const mode = weak ? "weak" : threads > 0 ? "parallel" : "seed";
  constexpr const char* kP2p[] = {"all", "none", "pairs", "lost", "copies"};
  text += fmt::format(" RONDO_SIMT=mode={},queues={},p2p={},multiprocessors={}", mode,
                      own_queues ? "own" : std::to_string(queues), kP2p[static_cast<int>(p2p)],
                      multiprocessors);
  if (!multicast) text += ",multicast=0";
  if (mig != 0) text += fmt::format(",mig={}", mig);
  if (mixed) text += ",kinds=mixed";
  if (!topology.empty()) text += ",topology=" + topology;
  if (!dmabuf) text += ",dmabuf=0";
  if (fabric != 0) text += fmt::format(",fabric={}", fabric);
  if (!imex) text += ",imex=0";
  if (!flushes) text += ",flushes=0";
  if (!ordered_writes) text += ",ordering=none";
  if (commands != Config{}.commands) text += fmt::format(",commands={}", commands);
  if (cooperative > 0) text += fmt::format(",cooperative={}", cooperative);
  if (frees_wait) text += ",frees=wait";
  if (registers_wait) text += ",registers=wait";
  if (pace != 0) text += fmt::format(",pace={}", pace);
  if (whole_lines) text += ",lines=whole";
  if (blocking_launches) text = "CUDA_LAUNCH_BLOCKING=1 " + text;
  if (visible) text = fmt::format("CUDA_VISIBLE_DEVICES='{}' {}", *visible, text);
  if (out_of_memory != 0) text += fmt::format(",out_of_memory={}", out_of_memory);
  if (lost != 0) text += fmt::format(",lost={}", lost);
  return text;
}

std::vector<int> Config::visible_devices() const {
  std::vector<int> found;
  if (!visible) {
    for (int device = 0; device < (mig != 0 ? 1 : devices); ++device) found.push_back(device);
    return found;
  }
  for (std::string_view left = *visible; !left.empty();) {
    const std::size_t comma = std::min(left.find(','), left.size());
    const int device = named_device(left.substr(0, comma), devices, mig != 0);
    if (device < 0) break;
    if (std::find(found.begin(), found.end(), device) != found.end()) return {};
    found.push_back(device);
    if (mig != 0) break;
    left.remove_prefix(std::min(comma + 1, left.size()));
  }
  return found;
}

std::string uuid_text(int device, bool mig) {
  std::string text = mig ? "MIG-" : "GPU-";
  const auto uuid = uuid_of(device);
  for (std::size_t i = 0; i < uuid.size(); ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
  return text;
}

std::array<unsigned char, 16> uuid_of(int device) {
  std::array<unsigned char, 16> uuid{};
  std::memcpy(uuid.data(), "rondo simt gpu ", 15);
  uuid[15] = static_cast<unsigned char>(device);
  return uuid;
}

}  // namespace rondo::simt
