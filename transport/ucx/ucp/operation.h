// SPDX-License-Identifier: Apache-2.0
// Operation: one asynchronous UCX call, which ends in a callback of the worker's progress.
//
// Guarantees: the request is returned to UCX when it ends. The object cannot be moved and must
// outlive a pending call. Cost: none beyond UCX's own request.
//
//   ucp_request_param_t param = operation.sending(ucp);
//   operation.begin(ucp.am_send_nbx(endpoint, id, &header, sizeof(header), body, bytes, &param));
//   while (operation.is_pending()) ucp.worker_progress(worker);
#pragma once

#include "transport/ucx/ucp/ucp_library.h"

namespace rondo::ucx {

class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Parameters for the call, with the callback that ends this operation.
  ucp_request_param_t sending(const UcpLibrary& ucp,
                              ucs_memory_type_t memory = UCS_MEMORY_TYPE_HOST) {
    ucp_request_param_t param = about(ucp, memory);
    param.cb.send = sent;
    return param;
  }
  ucp_request_param_t receiving(const UcpLibrary& ucp, ucs_memory_type_t memory) {
    ucp_request_param_t param = about(ucp, memory);
    param.cb.recv_am = received;
    return param;
  }
  // `answer`: the return value of the call.
  void begin(ucs_status_ptr_t answer) {
    is_pending_ = !UCS_PTR_IS_ERR(answer) && answer != nullptr;
    if (!is_pending_) status_ = UCS_PTR_STATUS(answer);
  }
  // Prepares for the next call.
  void reset() { status_ = UCS_INPROGRESS; }

  bool is_pending() const { return is_pending_; }
  bool is_done() const { return status_ == UCS_OK; }
  ucs_status_t code() const { return status_; }  // UCS_INPROGRESS: not begun, or pending
  bool has_failed() const { return UCS_STATUS_IS_ERR(status_); }

 private:
  ucp_request_param_t about(const UcpLibrary& ucp, ucs_memory_type_t memory) {
    ucp_ = &ucp;
    status_ = UCS_INPROGRESS;
    ucp_request_param_t param{};
    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.user_data = this;
    param.memory_type = memory;
    return param;
  }
  void end(void* request, ucs_status_t status) {
    is_pending_ = false;
    status_ = status;
    ucp_->request_free(request);
  }
  static void sent(void* request, ucs_status_t status, void* operation) {
    static_cast<Operation*>(operation)->end(request, status);
  }
  static void received(void* request, ucs_status_t status, std::size_t, void* operation) {
    static_cast<Operation*>(operation)->end(request, status);
  }

  const UcpLibrary* ucp_ = nullptr;
  bool is_pending_ = false;
  ucs_status_t status_ = UCS_INPROGRESS;
};

}  // namespace rondo::ucx
