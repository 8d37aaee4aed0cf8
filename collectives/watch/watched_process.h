// SPDX-License-Identifier: Apache-2.0
// WatchedProcess: where a watched process answers, and which ranks it has: what processes of other
// hosts must know to ask it. As JSON, in files (HostBook) and in messages (HostMeeting).
//
// Guarantees of parse(): an error, or values in range; addresses are numbers, so that no name
// server is asked; at most kMaxAddresses of them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "transport/auth/hmac.h"
#include "transport/socket/address.h"

namespace rondo::watch {

// A communicator's hash, and the rank in it.
using RankName = std::pair<std::uint64_t, int>;

struct WatchedProcess {
  static constexpr std::size_t kMaxAddresses = 16;

  std::uint64_t process = 0, host = 0;  // host: equal in processes of one host
  int pid = 0;
  std::string host_name;
  std::vector<net::SocketAddress> addresses;  // with the port
  auth::Digest secret{};                      // that an asker proves
  std::vector<RankName> ranks;

  static WatchedProcess own();  // without addresses, secret and ranks
  // The secret is in files only: messages are not encrypted.
  Json to_json(bool with_secret) const;
  static Result<WatchedProcess> parse(const Json& from, bool with_secret);
};

std::string hex_of(std::uint64_t number);
// Throws JsonError.
std::uint64_t number_of(const std::string& hex);

}  // namespace rondo::watch
