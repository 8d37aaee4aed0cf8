// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucp/endpoint.h"

namespace rondo::ucx {

Result<std::shared_ptr<Endpoint>> Endpoint::open(const UcpLibrary& ucp, ucp_worker_h worker,
                                                 ByteSpan address) {
  std::shared_ptr<Endpoint> made(new Endpoint(ucp));
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = failed;
  params.err_handler.arg = made.get();
  if (const ucs_status_t status = ucp.ep_create(worker, &params, &made->endpoint_);
      status != UCS_OK)
    return ucp.failure("ucp_ep_create", status,
                       "give all ranks transports that reach each other (UCX_TLS, "
                       "UCX_NET_DEVICES), and see `ulimit -n`");
  const ucp_request_param_t param = made->without_memory(made->connecting_);
  made->connecting_.begin(ucp.ep_flush_nbx(made->endpoint_, &param));
  if (made->connecting_.has_failed()) made->failure_ = made->connecting_.code();
  return made;
}

ucp_request_param_t Endpoint::without_memory(Operation& operation) {
  ucp_request_param_t param = operation.sending(ucp_);
  param.op_attr_mask &= ~UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  return param;
}

// Uses rendezvous, because the peer's UCX then answers on arrival. The byte is never read.
void Endpoint::ping() {
  static constexpr std::byte kByte{};
  static constexpr Grant kNobodys{};
  ucp_request_param_t param = ping_.sending(ucp_);
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_RNDV;
  ping_.begin(ucp_.am_send_nbx(endpoint_, kPingId, &kNobodys, sizeof(kNobodys), &kByte, 1, &param));
}

void Endpoint::shut() {
  if (endpoint_ == nullptr) return;
  if (failure_ == UCS_OK) failure_ = UCS_ERR_CANCELED;
  ucp_request_param_t param = without_memory(closing_);
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  closing_.begin(ucp_.ep_close_nbx(endpoint_, &param));
  endpoint_ = nullptr;
}

}  // namespace rondo::ucx
