#include "transport/bootstrap/unique_id.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/env.h"
#include "transport/bootstrap/id_contents.h"
#include "transport/bootstrap/job_secret.h"
#include "transport/bootstrap/server_registry.h"
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

Result<IdContents> own_contents(std::span<const net::SocketAddress> met_at) {
  RONDO_TRY(const auto server, ServerRegistry::instance().common(met_at));
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

}  // namespace rondo::bootstrap
