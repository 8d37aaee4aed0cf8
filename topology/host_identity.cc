// SPDX-License-Identifier: Apache-2.0
#include "topology/host_identity.h"

#include <sys/stat.h>
#include <sys/utsname.h>

#include <algorithm>
#include <string_view>

#include "base/env.h"
#include "topology/small_file.h"

namespace rondo::topology {
namespace {

// FNV-1a over the bytes and a separator, so that "ab","c" and "a","bc" differ.
std::uint64_t mix(std::uint64_t hash, std::string_view text) {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * kPrime;
  return (hash ^ 0xff) * kPrime;
}

std::string first_line(const std::string& path) {
  std::string text = read_small_file(path, 256).value_or("");
  text.resize(std::min(text.size(), text.find('\n')));
  return text;
}

}  // namespace

HostFacts read_host_facts() {
  HostFacts facts;
  facts.override_id = env::get_string("NCCL_HOSTID");
  static const auto& boot_id = *new std::string([] {
    const std::string of_boot = first_line("/proc/sys/kernel/random/boot_id");
    return of_boot.empty() ? first_line("/etc/machine-id") : of_boot;
  }());
  facts.boot_id = boot_id;
  struct utsname names {};
  if (::uname(&names) == 0) facts.node_name = names.nodename;
  struct stat network {};
  if (::stat("/proc/self/ns/net", &network) == 0) facts.network_namespace = network.st_ino;
  return facts;
}

std::uint64_t host_id_of(const HostFacts& facts) {
  std::uint64_t hash = 0xcbf29ce484222325;
  if (!facts.override_id.empty()) {
    hash = mix(hash, facts.override_id);
  } else {
    hash = mix(hash, facts.boot_id);
    hash = mix(hash, facts.node_name);
    hash = mix(hash, std::to_string(facts.network_namespace));
  }
  return hash == 0 ? 1 : hash;
}

std::uint64_t host_id() { return host_id_of(read_host_facts()); }

}  // namespace rondo::topology
