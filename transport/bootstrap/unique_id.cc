// SPDX-License-Identifier: Apache-2.0
#include "transport/bootstrap/unique_id.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bytes.h"
#include "base/env.h"
#include "transport/bootstrap/rendezvous_server.h"
#include "transport/bootstrap/secret.h"
#include "transport/socket/interfaces.h"

namespace rondo::bootstrap {
namespace {

// The id of a rendezvous that rank 0 will serve. Every process makes the same one.
Result<UniqueId> fixed_id(const std::string& text) {
  RONDO_TRY(const net::HostPort place, net::parse_host_port(text));
  RONDO_TRY(const int family, net::parse_family(env::get_string("NCCL_SOCKET_FAMILY")));
  IdContents contents;
  contents.served_by_rank_zero = true;
  contents.port = place.port;
  RONDO_TRY(contents.addresses, net::resolve(place, family));
  warn_without_job_secret("NCCL_COMM_ID=" + text, "any process that can reach that address");
  ByteWriter seed;
  seed.put_string("NCCL_COMM_ID");
  seed.put<std::uint16_t>(place.port);
  contents.secret = auth::sha256({seed.written()});
  return encode_id(contents);
}

}  // namespace

Result<IdContents> own_contents(std::span<const net::SocketAddress> rendezvous_at) {
  RONDO_TRY(const auto server, ServerRegistry::instance().common(rendezvous_at));
  IdContents contents;
  contents.port = server->port();
  contents.addresses = server->addresses();
  return contents;
}

Result<UniqueId> make_unique_id() {
  if (const auto fixed = env::get_string("NCCL_COMM_ID"); !fixed.empty()) return fixed_id(fixed);
  return make_unique_id(Secret::random());
}

Result<UniqueId> make_unique_id(const Secret& secret) {
  RONDO_TRY(IdContents contents, own_contents());
  contents.secret = secret.bytes();
  RONDO_TRY(const auto server, ServerRegistry::instance().common());
  RONDO_TRY(const Secret proven, session_secret(secret));
  const UniqueId id = encode_id(contents);
  // Last: if a later step failed, no caller could close the rendezvous.
  RONDO_CHECK_OK(server->open_rendezvous(auth::Key(secret.bytes(), proven.bytes())));
  return id;
}

void forget_unique_id(const UniqueId& id) {
  if (const auto contents = decode_id(id); contents.ok() && !contents.value().served_by_rank_zero)
    ServerRegistry::instance().close_rendezvous(auth::tag_of(contents.value().secret));
}

Result<UniqueId> address_of(const UniqueId& id) {
  RONDO_TRY(IdContents contents, decode_id(id));
  contents.secret = {};
  return encode_id(contents);
}

Result<UniqueId> child_id(const UniqueId& address, const Secret& secret) {
  RONDO_TRY(IdContents contents, decode_id(address));
  contents.secret = secret.bytes();
  contents.served_by_rank_zero = false;
  return encode_id(contents);
}

namespace {

constexpr std::array<char, 8> kMagic = {'R', 'o', 'n', 'd', 'o', 'I', 'D', 1};
constexpr std::size_t kBody = sizeof(UniqueId::bytes) - 4;
constexpr std::size_t kMaxAddresses = 10;
constexpr std::uint8_t kServedByRankZero = 1;

std::span<const std::byte> body_of(const UniqueId& id) {
  return std::as_bytes(std::span(id.bytes)).first(kBody);
}

}  // namespace

UniqueId encode_id(const IdContents& contents) {
  ByteWriter addresses;
  std::uint8_t count = 0;
  constexpr std::size_t kRoom = kBody - 8 - 1 - 1 - 2 - 32;
  for (const auto& address : contents.addresses) {
    const auto ip = address.ip();
    if (count == kMaxAddresses || addresses.written().size() + 1 + ip.size() > kRoom) break;
    addresses.put<std::uint8_t>(ip.size() == 4 ? 4 : 6);
    addresses.put_raw(std::as_bytes(ip));
    ++count;
  }
  ByteWriter out;
  out.put_raw(std::as_bytes(std::span(kMagic)));
  out.put<std::uint8_t>(contents.served_by_rank_zero ? kServedByRankZero : 0);
  out.put<std::uint8_t>(count);
  out.put<std::uint16_t>(contents.port);
  out.put_raw(contents.secret);
  out.put_raw(addresses.written());
  UniqueId id;
  std::memcpy(id.bytes, out.written().data(), out.written().size());
  const Digest check = auth::sha256({body_of(id)});
  std::memcpy(id.bytes + kBody, check.data(), sizeof(id.bytes) - kBody);
  return id;
}

Result<IdContents> decode_id(const UniqueId& id) {
  const auto refuse = [] {
    return fail(StatusCode::kInvalidArgument,
                "the unique id is not one that ncclGetUniqueId of this Rondo made: pass all 128 "
                "bytes of it, unchanged, to every rank");
  };
  ByteReader in(std::as_bytes(std::span(id.bytes)).first(kBody));
  std::array<char, kMagic.size()> magic{};
  in.fill(std::as_writable_bytes(std::span(magic)));
  const Digest check = auth::sha256({body_of(id)});
  if (magic != kMagic || std::memcmp(id.bytes + kBody, check.data(), sizeof(id.bytes) - kBody) != 0)
    return refuse();
  IdContents contents;
  contents.served_by_rank_zero = (in.get<std::uint8_t>() & kServedByRankZero) != 0;
  const auto count = in.get<std::uint8_t>();
  contents.port = in.get<std::uint16_t>();
  in.fill(contents.secret);
  for (int i = 0; i < count && in.ok(); ++i) {
    const auto kind = in.get<std::uint8_t>();
    std::array<unsigned char, 16> ip{};
    const std::size_t bytes = kind == 4 ? 4 : 16;
    if (kind != 4 && kind != 6) return refuse();
    in.fill(std::as_writable_bytes(std::span(ip).first(bytes)));
    contents.addresses.push_back(
        kind == 4
            ? net::SocketAddress::v4(std::span<const unsigned char, 4>(ip.data(), 4), contents.port)
            : net::SocketAddress::v6(ip, contents.port));
  }
  if (!in.ok() || count > kMaxAddresses || contents.addresses.empty() || contents.port == 0)
    return refuse();
  return contents;
}

Result<std::shared_ptr<Listener>> Listener::open(
    std::span<const net::SocketAddress> rendezvous_at) {
  RONDO_TRY(const IdContents contents, own_contents(rendezvous_at));
  return std::shared_ptr<Listener>(new Listener(encode_id(contents)));
}

}  // namespace rondo::bootstrap
