// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucp/worker.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/log.h"
#include "transport/auth/hmac.h"

namespace rondo::ucx {
namespace {

constexpr std::chrono::milliseconds kForPeers{250}, kForUcx{5'000};

// An eager message holds up to 128 KiB. UCX over TCP receives one that is longer than a segment in
// pieces (default: 64 KiB) and copies them together, which takes two thirds of the time.
constexpr char kTcpSegment[] = "256K";

// True if UCX may open TCP and the user has not chosen the segment. UCX warns of an option that no
// open transport has.
bool receives_by_tcp() {
  if (std::getenv("UCX_TCP_RX_SEG_SIZE") != nullptr) return false;
  const char* const value = std::getenv("UCX_TLS");
  if (value == nullptr) return true;
  const std::string_view transports = value;
  const auto names = [transports](const char* name) {
    return transports.find(name) != std::string_view::npos;
  };
  return !transports.starts_with('^') && (names("tcp") || names("all"));
}

std::uint64_t random_number() {
  const auth::Digest random = auth::random_digest();
  std::uint64_t number = 0;
  std::memcpy(&number, random.data(), sizeof(number));
  return number;
}

using EndsByToken = std::unordered_map<std::uint64_t, Worker::Ends>;

// The link whose token the header carries; null: none.
template <class Head>
const Worker::Ends* addressee(void* ends, const void* header, std::size_t bytes, Head& head) {
  if (bytes != sizeof(head)) return nullptr;
  std::memcpy(&head, header, sizeof(head));
  const auto& by_token = *static_cast<const EndsByToken*>(ends);
  const auto it = by_token.find(head.token);
  return it == by_token.end() ? nullptr : &it->second;
}

ucs_status_t on_message(void* ends, const void* header, std::size_t header_bytes, void* data,
                        std::size_t bytes, const ucp_am_recv_param_t* param) {
  Header head;
  const Worker::Ends* const end = addressee(ends, header, header_bytes, head);
  if (end == nullptr) return UCS_OK;
  return end->receive->take(head, data, bytes,
                            (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
}

ucs_status_t on_grant(void* ends, const void* header, std::size_t header_bytes, void*, std::size_t,
                      const ucp_am_recv_param_t*) {
  Grant grant;
  if (const Worker::Ends* const end = addressee(ends, header, header_bytes, grant))
    end->send->take(grant);
  return UCS_OK;
}

ucs_status_t on_ping(void*, const void*, std::size_t, void*, std::size_t,
                     const ucp_am_recv_param_t*) {
  return UCS_OK;
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::open() {
  RONDO_TRY(const UcpLibrary* const ucp, UcpLibrary::load());
  std::unique_ptr<Worker> made(new Worker(*ucp));
  made->number_ = random_number();
  RONDO_CHECK_OK(made->open_context());
  RONDO_CHECK_OK(made->open_worker());
  return made;
}

Status Worker::open_context() {
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = ucp_.config_read(nullptr, nullptr, &config); status != UCS_OK)
    return ucp_.failure("ucp_config_read", status, "see the variables UCX_*");
  // No rendezvous: if an endpoint is closed during one, UCX 1.13 continues with freed memory (TCP),
  // and a peer that writes directly could still write after the link's end.
  ucs_status_t status = ucp_.config_modify(config, "RNDV_THRESH", "inf");
  if (status == UCS_OK && receives_by_tcp())
    status = ucp_.config_modify(config, "RX_SEG_SIZE", kTcpSegment);
  const char* function = "ucp_config_modify";
  if (status == UCS_OK) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    function = "ucp_init";
    status = ucp_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  }
  ucp_.config_release(config);
  if (status != UCS_OK)
    return ucp_.failure(function, status,
                        "see UCX_TLS and UCX_NET_DEVICES; `ucx_info -d` lists what there is");
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  takes_device_memory_ = ucp_.context_query(context_, &attributes) == UCS_OK &&
                         (attributes.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
  return ok_status();
}

Status Worker::open_worker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  if (const ucs_status_t status = ucp_.worker_create(context_, &params, &worker_); status != UCS_OK)
    return ucp_.failure("ucp_worker_create", status,
                        "see UCX_TLS and UCX_NET_DEVICES, `ulimit -n` and `ulimit -l`");
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  if (const ucs_status_t status = ucp_.worker_get_address(worker_, &address, &bytes);
      status != UCS_OK)
    return ucp_.failure("ucp_worker_get_address", status);
  const auto* const begin = reinterpret_cast<const std::byte*>(address);
  address_.assign(begin, begin + bytes);
  ucp_.worker_release_address(worker_, address);
  if (const ucs_status_t status = ucp_.worker_get_efd(worker_, &fd_); status != UCS_OK)
    return ucp_.failure("ucp_worker_get_efd", status,
                        "these transports (UCX_TLS) cannot wake a rank that sleeps");
  RONDO_CHECK_OK(listen(kMessageId, on_message));
  RONDO_CHECK_OK(listen(kGrantId, on_grant));
  return listen(kPingId, on_ping);
}

Status Worker::listen(unsigned id, ucp_am_recv_callback_t callback) {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                     UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = id;
  param.flags = UCP_AM_FLAG_WHOLE_MSG;
  // UCX copies messages for GPU memory after the callback.
  if (takes_device_memory_) param.flags |= UCP_AM_FLAG_PERSISTENT_DATA;
  param.cb = callback;
  param.arg = &ends_;
  if (const ucs_status_t status = ucp_.worker_set_am_recv_handler(worker_, &param);
      status != UCS_OK)
    return ucp_.failure("ucp_worker_set_am_recv_handler", status);
  return ok_status();
}

std::uint64_t Worker::add(Ends ends) {
  for (;;)
    if (const std::uint64_t token = random_number(); ends_.emplace(token, ends).second)
      return token;
}

Result<std::shared_ptr<Endpoint>> Worker::endpoint_to(const Greeting& peer) {
  if (const auto it = peers_.find(peer.worker); it != peers_.end()) {
    if (it->second->failure() == UCS_OK) return it->second;
    return fail(StatusCode::kRemoteError,
                "UCX's connection to that rank has ended ({}) and cannot be opened again: create a "
                "new communicator",
                ucp_.status_string(it->second->failure()));
  }
  RONDO_TRY(auto endpoint, Endpoint::open(ucp_, worker_, peer.address));
  peers_.emplace(peer.worker, endpoint);
  return endpoint;
}

bool Worker::progress() {
  constexpr int kTurns = 16;  // limit, so that other work can continue
  bool moved = false;
  for (int i = 0; i < kTurns && ucp_.worker_progress(worker_) != 0; ++i) moved = true;
  return moved;
}

void Worker::close_endpoints() {
  for (const auto& [number, endpoint] : peers_)
    if (endpoint->is_unconfirmed()) endpoint->ping();
  const auto all = [&](bool (Endpoint::*holds)() const) {
    return std::all_of(peers_.begin(), peers_.end(),
                       [&](const auto& one) { return (one.second.get()->*holds)(); });
  };
  until(kForPeers, [&] { return all(&Endpoint::is_answered); });
  for (const auto& [number, endpoint] : peers_) endpoint->shut();
  if (until(kForUcx, [&] { return all(&Endpoint::is_shut); })) return;
  RONDO_WARN("UCX has not closed all connections within {} ms: their resources are not freed",
             kForUcx.count());
  (void)new auto(std::move(peers_));  // leaked: UCX can still call back
}

Worker::~Worker() {
  if (worker_ != nullptr) {
    close_endpoints();
    ucp_.worker_destroy(worker_);
  }
  if (context_ != nullptr) ucp_.cleanup(context_);
}

}  // namespace rondo::ucx
