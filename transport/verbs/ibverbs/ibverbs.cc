// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/ibverbs/ibverbs.h"

#include <dlfcn.h>

#include <cstring>

#include "base/shared_library.h"

namespace rondo::verbs {
namespace {

constexpr const char* kLibrary = "libibverbs.so.1";

}  // namespace

Result<Ibverbs> Ibverbs::load_from(const char* library) {
  // RTLD_GLOBAL is not needed: the providers link the library themselves.
  const auto handle = load_library(library);
  if (!handle.ok())
    return fail(StatusCode::kSystemError,
                "{} cannot be loaded: {}; install libibverbs1 and ibverbs-providers (rdma-core)",
                library, handle.error().text);
  Ibverbs verbs{};
  LibraryFunctions lookup(*handle);
  lookup.need(verbs.get_device_list, "ibv_get_device_list");
  lookup.need(verbs.free_device_list, "ibv_free_device_list");
  lookup.need(verbs.get_device_name, "ibv_get_device_name");
  lookup.need(verbs.open_device, "ibv_open_device");
  lookup.need(verbs.close_device, "ibv_close_device");
  lookup.need(verbs.query_device, "ibv_query_device");
  lookup.need(verbs.query_port_compat, "ibv_query_port");
  lookup.need(verbs.get_async_event, "ibv_get_async_event");
  lookup.need(verbs.ack_async_event, "ibv_ack_async_event");
  lookup.need(verbs.alloc_pd, "ibv_alloc_pd");
  lookup.need(verbs.dealloc_pd, "ibv_dealloc_pd");
  lookup.need(verbs.reg_mr, "ibv_reg_mr");
  lookup.need(verbs.dereg_mr, "ibv_dereg_mr");
  lookup.need(verbs.create_comp_channel, "ibv_create_comp_channel");
  lookup.need(verbs.destroy_comp_channel, "ibv_destroy_comp_channel");
  lookup.need(verbs.create_cq, "ibv_create_cq");
  lookup.need(verbs.resize_cq, "ibv_resize_cq");
  lookup.need(verbs.destroy_cq, "ibv_destroy_cq");
  lookup.need(verbs.get_cq_event, "ibv_get_cq_event");
  lookup.need(verbs.ack_cq_events, "ibv_ack_cq_events");
  lookup.need(verbs.create_qp, "ibv_create_qp");
  lookup.need(verbs.modify_qp, "ibv_modify_qp");
  lookup.need(verbs.destroy_qp, "ibv_destroy_qp");
  lookup.need(verbs.wc_status_str, "ibv_wc_status_str");
  lookup.find(verbs.reg_mr_iova2, "ibv_reg_mr_iova2");
  lookup.find(verbs.reg_dmabuf_mr, "ibv_reg_dmabuf_mr");
  if (lookup.missing() != nullptr) {
    const char* const name = lookup.missing();
    dlclose(*handle);
    return fail(StatusCode::kSystemError, "{} has no function {}: install rdma-core 17 or newer",
                library, name);
  }
  return verbs;
}

Result<const Ibverbs*> Ibverbs::load() {
  static const Result<Ibverbs> loaded = load_from(kLibrary);
  if (!loaded.ok()) return loaded.error();
  return &loaded.value();
}

int Ibverbs::query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* into) const {
  if (verbs_context* const newer = verbs_get_ctx_op(context, query_port))
    return newer->query_port(context, port, into, sizeof(*into));
  // The function of an older library fills only the first part of the struct.
  std::memset(into, 0, sizeof(*into));
  return query_port_compat(context, port, reinterpret_cast<_compat_ibv_port_attr*>(into));
}

}  // namespace rondo::verbs
