// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/tune_peer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "base/bytes.h"
#include "base/env.h"
#include "base/printable.h"
#include "topology/host_topology.h"
#include "transport/bootstrap/secret.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/connection.h"
#include "transport/socket/interfaces.h"

namespace rondo::cli {
namespace {

constexpr std::chrono::minutes kMeetTime{10}, kRunTime{2};

// First message of each machine to the other.
struct Introduction {
  std::uint32_t layout = kLayoutVersion;  // both must be the same build
  std::uint64_t host = topology::host_id();
  std::string name{}, master{}, only{};
  std::uint64_t max_bytes = 0;
  double seconds = 0;

  Bytes encode() const {
    ByteWriter out;
    out.put(layout);
    out.put(host);
    for (const std::string* text : {&name, &master, &only}) out.put_string(*text);
    out.put(max_bytes);
    out.put(seconds);
    return out.take();
  }
  static Result<Introduction> decode(ByteSpan blob) {
    ByteReader in(blob);
    Introduction received;
    received.layout = in.get<std::uint32_t>();
    if (in.ok() && received.layout != kLayoutVersion)
      return fail(StatusCode::kInvalidUsage,
                  "the peer is another build of Rondo (layout {}, here {}): use one build",
                  received.layout, kLayoutVersion);
    received.host = in.get<std::uint64_t>();
    for (std::string* text : {&received.name, &received.master, &received.only})
      *text = printable(in.get_string());
    received.max_bytes = in.get<std::uint64_t>();
    received.seconds = in.get<double>();
    if (!in.finished() || !(received.seconds > 0 && received.seconds <= 1))
      return fail(StatusCode::kRemoteError, "the peer sent a message that cannot be read");
    return received;
  }
};

std::string host_name() {
  char text[256] = "";
  gethostname(text, sizeof text - 1);
  return text;
}

// "10.0.0.1:4000" -> "10.0.0.1", "[::1]:4000" -> "::1".
std::string without_port(const net::SocketAddress& address) {
  std::string text = address.text();
  text.resize(text.rfind(':'));
  return text.starts_with('[') ? text.substr(1, text.size() - 2) : text;
}

Result<std::vector<net::SocketAddress>> addresses_of(const TuneAddress& place) {
  RONDO_TRY(const int family, net::parse_family(env::get_string("NCCL_SOCKET_FAMILY")));
  if (!place.listens()) return net::resolve({place.host, place.port}, family);
  return std::vector<net::SocketAddress>{
      net::SocketAddress::any(family == AF_INET6 ? AF_INET6 : AF_INET, place.port)};
}

// Both machines compute the same id; RONDO_SECRET protects it from others.
bootstrap::UniqueId id_of(const TuneAddress& place, std::vector<net::SocketAddress> addresses) {
  bootstrap::IdContents contents;
  contents.served_by_rank_zero = true;
  contents.port = place.port;
  contents.addresses = std::move(addresses);
  ByteWriter seed;
  seed.put_string("rondo tune");
  seed.put(place.port);
  contents.secret = auth::sha256({seed.written()});
  return bootstrap::encode_id(contents);
}

}  // namespace

Result<TuneAddress> parse_tune_address(const std::string& text) {
  TuneAddress place;
  const bool has_port = text.find(':') != std::string::npos;
  RONDO_TRY(const net::HostPort named,
            net::parse_host_port(has_port ? text : fmt::format("{}:{}", text, place.port)));
  place.host = named.host;
  place.port = named.port;
  return place;
}

Result<std::unique_ptr<TunePeer>> TunePeer::meet(const TuneAddress& place, TuneSizes* sizes,
                                                 std::string* only) {
  if (!bootstrap::has_job_secret())
    return fail(StatusCode::kInvalidUsage,
                "RONDO_SECRET is not set: both machines need the same one, as rondo tune --listen "
                "prints it");
  RONDO_TRY(const auto addresses, addresses_of(place));
  std::unique_ptr<TunePeer> peer(new TunePeer);
  peer->port_ = place.port;
  RONDO_TRY(peer->session_, bootstrap::Session::join({.rank = place.listens() ? 0 : 1,
                                                      .size = 2,
                                                      .id = id_of(place, addresses),
                                                      .timeout = kMeetTime}));
  peer->session_->set_timeout(kRunTime);
  Introduction mine;
  mine.name = host_name();
  if (!place.listens()) mine.master = without_port(addresses[0]);
  mine.only = *only;
  mine.max_bytes = sizes->max_bytes;
  mine.seconds = sizes->seconds;
  RONDO_TRY(const auto blobs, peer->session_->all_gather(mine.encode()));
  Introduction received[2];
  for (std::size_t i = 0; i < 2; ++i) {
    RONDO_TRY(received[i], Introduction::decode(blobs[i]));
  }
  if (received[0].host == received[1].host)
    return fail(StatusCode::kInvalidUsage,
                "the peer is this machine: between its ranks there is no network to measure");
  // It becomes part of a command line, so only these characters are safe.
  if (received[1].master.find_first_not_of("0123456789abcdef.:") != std::string::npos)
    return fail(StatusCode::kInvalidUsage,
                "'{}' names an interface of one machine: use an address without an interface",
                received[1].master);
  peer->master_ = received[1].master;
  peer->name_ = received[place.listens() ? 1 : 0].name;
  *only = received[0].only;
  *sizes = {received[0].max_bytes, received[0].seconds};
  return peer;
}

std::string TunePeer::variables(int ranks) const {
  return fmt::format(
      "RANK=$((RANK + {})) WORLD_SIZE={} MASTER_ADDR={} MASTER_PORT={} RONDO_JOB=tune ",
      session_->rank() * ranks / 2, ranks, master_, port_);
}

Status TunePeer::both(const Status& here) {
  ByteWriter mine;
  mine.put_string(here.ok() ? "" : here.error().text);
  RONDO_TRY(const auto received, session_->all_gather(mine.take()));
  const std::size_t other = session_->rank() == 0 ? 1 : 0;
  const std::string theirs = printable(ByteReader(received[other]).get_string());
  if (!here.ok() || theirs.empty()) return here;
  return fail(StatusCode::kRemoteError, "on {}: {}", name_, theirs);
}

}  // namespace rondo::cli
