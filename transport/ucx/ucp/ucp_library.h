// SPDX-License-Identifier: Apache-2.0
// UcpLibrary: the functions of UCX's UCP that Rondo calls, loaded at first use. Rondo does not link
// the library, so it works on hosts without UCX.
//
// Guarantees: load() loads once per process, from any thread, and never unloads the library. A
// failure names its remedy, and later calls return the same failure. Signal handlers that the
// library installs (UCX_ERROR_SIGNALS, UCX_DEBUG_SIGNO) are removed again, because they would
// replace the program's. Types and constants are those of ucp.h. Cost: an indirect call.
//
//   RONDO_TRY(const UcpLibrary* ucp, UcpLibrary::load());
//   while (ucp->worker_progress(worker) != 0) {}
#pragma once

#include <ucp/api/ucp.h>

#include <string>

#include "base/result.h"

namespace rondo::ucx {

struct UcpLibrary {
  ucs_status_t (*init_version)(unsigned major, unsigned minor, const ucp_params_t* params,
                               const ucp_config_t* config, ucp_context_h* context);
  void (*cleanup)(ucp_context_h context);
  ucs_status_t (*context_query)(ucp_context_h context, ucp_context_attr_t* attributes);
  ucs_status_t (*config_read)(const char* prefix, const char* file, ucp_config_t** config);
  ucs_status_t (*config_modify)(ucp_config_t* config, const char* name, const char* value);
  void (*config_release)(ucp_config_t* config);

  ucs_status_t (*worker_create)(ucp_context_h context, const ucp_worker_params_t* params,
                                ucp_worker_h* worker);
  void (*worker_destroy)(ucp_worker_h worker);
  ucs_status_t (*worker_get_address)(ucp_worker_h worker, ucp_address_t** address,
                                     std::size_t* bytes);
  void (*worker_release_address)(ucp_worker_h worker, ucp_address_t* address);
  ucs_status_t (*worker_get_efd)(ucp_worker_h worker, int* file);
  ucs_status_t (*worker_arm)(ucp_worker_h worker);
  unsigned (*worker_progress)(ucp_worker_h worker);
  ucs_status_t (*worker_set_am_recv_handler)(ucp_worker_h worker,
                                             const ucp_am_handler_param_t* param);

  ucs_status_t (*ep_create)(ucp_worker_h worker, const ucp_ep_params_t* params, ucp_ep_h* endpoint);
  ucs_status_ptr_t (*ep_flush_nbx)(ucp_ep_h endpoint, const ucp_request_param_t* param);
  ucs_status_ptr_t (*ep_close_nbx)(ucp_ep_h endpoint, const ucp_request_param_t* param);
  ucs_status_ptr_t (*am_send_nbx)(ucp_ep_h endpoint, unsigned id, const void* header,
                                  std::size_t header_bytes, const void* body, std::size_t bytes,
                                  const ucp_request_param_t* param);
  ucs_status_ptr_t (*am_recv_data_nbx)(ucp_worker_h worker, void* data, void* room,
                                       std::size_t bytes, const ucp_request_param_t* param);
  void (*request_free)(void* request);
  void (*get_version)(unsigned* major, unsigned* minor, unsigned* release);
  const char* (*status_string)(ucs_status_t status);  // from libucs

  static Result<const UcpLibrary*> load();
  // Like load(), for a library of this name, and loads at every call (tests).
  static Result<UcpLibrary> load_from(const char* library);

  std::string version() const;  // "1.13.1"
  Error failure(const char* function, ucs_status_t status, const char* remedy = "") const;
};

}  // namespace rondo::ucx
