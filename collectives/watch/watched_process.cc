// SPDX-License-Identifier: Apache-2.0
#include "collectives/watch/watched_process.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <exception>

#include "base/printable.h"
#include "base/process.h"
#include "base/text_file.h"
#include "topology/host_topology.h"

namespace rondo::watch {
namespace {

constexpr std::size_t kMaxRanks = 4096;  // of a process: Watch::kSeats

std::string hex_of(const auth::Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

auth::Digest digest_of(const std::string& text) {
  auth::Digest digest{};
  if (text.size() != 2 * digest.size() ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw JsonError("'secret' is none");
  for (std::size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::byte>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return digest;
}

int small_number(const Json& from, double high) {
  const double value = from.number();
  if (!(value >= 0 && value <= high)) throw JsonError("a number is out of range");
  return static_cast<int>(value);
}

RankName rank_of(const Json& from) {
  constexpr double kMaxRank = 1 << 20;
  const auto& words = from.elements();
  if (words.size() != 2) throw JsonError("a rank is none");
  return {number_of(words[0].string()), small_number(words[1], kMaxRank)};
}

bool is_number(const std::string& host) {
  in6_addr ip6{};
  in_addr ip4{};
  return inet_pton(AF_INET, host.c_str(), &ip4) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &ip6) == 1;
}

}  // namespace

std::string hex_of(std::uint64_t number) { return fmt::format("{:x}", number); }

std::uint64_t number_of(const std::string& text) {
  if (text.empty() || text.size() > 16 ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw JsonError("a number is none");
  return std::stoull(text, nullptr, 16);
}

WatchedProcess WatchedProcess::own() {
  WatchedProcess own;
  own.process = this_process()[0];
  own.host = topology::host_id();
  own.pid = getpid();
  own.host_name = own_host_name();
  return own;
}

Json WatchedProcess::to_json(bool with_secret) const {
  std::vector<std::string> places;
  for (const net::SocketAddress& address : addresses) places.push_back(address.text());
  Json names = Json::array();
  for (const auto& [hash, rank] : ranks) {
    Json name = Json::array();
    name.push_back(hex_of(hash));
    name.push_back(rank);
    names.push_back(std::move(name));
  }
  Json all{{"process", hex_of(process)}, {"host", hex_of(host)}, {"pid", pid},
           {"host_name", host_name},     {"addresses", places},  {"ranks", std::move(names)}};
  if (with_secret) all["secret"] = hex_of(secret);
  return all;
}

Result<WatchedProcess> WatchedProcess::parse(const Json& from, bool with_secret) {
  constexpr double kMaxPid = 1 << 30;
  try {
    WatchedProcess process;
    process.process = number_of(from.at("process").string());
    process.host = number_of(from.at("host").string());
    process.pid = small_number(from.at("pid"), kMaxPid);
    process.host_name = printable(from.at("host_name").string());
    if (with_secret) process.secret = digest_of(from.at("secret").string());
    for (const Json& rank : from.at("ranks").elements()) {
      if (process.ranks.size() == kMaxRanks) throw JsonError("too many ranks");
      process.ranks.push_back(rank_of(rank));
    }
    for (const Json& address : from.at("addresses").elements()) {
      RONDO_TRY(const net::HostPort place, net::parse_host_port(address.string()));
      if (!is_number(place.host)) continue;
      RONDO_TRY(const auto resolved, net::resolve(place, AF_UNSPEC));
      if (!resolved.empty() && process.addresses.size() < kMaxAddresses)
        process.addresses.push_back(resolved.front());
    }
    return process;
  } catch (const std::exception& error) {
    return fail(StatusCode::kInvalidArgument, "{}", error.what());
  }
}

}  // namespace rondo::watch
