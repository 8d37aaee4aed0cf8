// IdContents: the decoded 128 bytes of a UniqueId.
//
// Layout, little-endian: magic and layout version (8), flags (1), number of addresses (1), port
// (2), secret (32), addresses (one byte, 4 or 6, then the address), zeros. The last four bytes are
// the first four of the SHA-256 of the rest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/auth/hmac.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/socket/address.h"

namespace rondo::bootstrap {

using auth::Digest;

struct IdContents {
  bool served_by_rank_zero = false;  // NCCL_COMM_ID: no server until rank 0 joins
  std::uint16_t port = 0;
  std::vector<net::SocketAddress> addresses;  // including the port; the best first
  Digest secret{};
};

// Keeps as many addresses as fit.
UniqueId encode_id(const IdContents& contents);
Result<IdContents> decode_id(const UniqueId& id);

// The server and addresses of this process, without a secret. Opens no rendezvous.
Result<IdContents> own_contents(std::span<const net::SocketAddress> met_at = {});

}  // namespace rondo::bootstrap
