// SPDX-License-Identifier: Apache-2.0
// Ibverbs: the functions of libibverbs that Rondo calls, loaded at first use. Rondo does not link
// the library, so it works on hosts without it.
//
// Guarantees: load() loads once per process, from any thread, and never unloads the library
// (unloading its providers is not safe). A failure names its remedy, and later calls return the
// same failure. Types and constants are those of rdma-core's verbs.h. Functions that verbs.h
// defines inline (ibv_post_send, ibv_post_recv, ibv_poll_cq, ibv_req_notify_cq) are called directly
// and are not in this table. Cost: an indirect call.
//
//   RONDO_TRY(const Ibverbs* verbs, Ibverbs::load());
//   ibv_pd* domain = verbs->alloc_pd(context);
#pragma once

#include <infiniband/verbs.h>

#include "base/result.h"

namespace rondo::verbs {

struct Ibverbs {
  ibv_device** (*get_device_list)(int* devices);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* device);
  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes);
  int (*query_port_compat)(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* into);
  int (*get_async_event)(ibv_context* context, ibv_async_event* event);
  void (*ack_async_event)(ibv_async_event* event);

  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*dealloc_pd)(ibv_pd* domain);
  ibv_mr* (*reg_mr)(ibv_pd* domain, void* address, std::size_t bytes, int access);
  int (*dereg_mr)(ibv_mr* region);

  ibv_comp_channel* (*create_comp_channel)(ibv_context* context);
  int (*destroy_comp_channel)(ibv_comp_channel* channel);
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* cookie, ibv_comp_channel* channel,
                       int vector);
  int (*resize_cq)(ibv_cq* queue, int entries);
  int (*destroy_cq)(ibv_cq* queue);
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** queue, void** cookie);
  void (*ack_cq_events)(ibv_cq* queue, unsigned events);

  ibv_qp* (*create_qp)(ibv_pd* domain, ibv_qp_init_attr* attributes);
  int (*modify_qp)(ibv_qp* pair, ibv_qp_attr* attributes, int mask);
  int (*destroy_qp)(ibv_qp* pair);

  const char* (*wc_status_str)(ibv_wc_status status);

  // nullptr in older libraries. Access flags of IBV_ACCESS_OPTIONAL_RANGE (relaxed ordering) need
  // reg_mr_iova2.
  ibv_mr* (*reg_mr_iova2)(ibv_pd* domain, void* address, std::size_t bytes, std::uint64_t iova,
                          unsigned access);
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                           std::uint64_t iova, int file, int access);

  static Result<const Ibverbs*> load();
  // Like load(), for a library of this name, and loads at every call (tests).
  static Result<Ibverbs> load_from(const char* library);

  // ibv_query_port, without the header's reference to the library's symbol.
  int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* into) const;
};

}  // namespace rondo::verbs
