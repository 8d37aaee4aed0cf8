// libibverbs with RDMA devices that a test plays: they take everything, move nothing, and tell what
// they are told to.
//
//   PlayedVerbs devices;
//   played = &devices;
//   Options options;
//   options.functions = &played_functions();
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "transport/verbs/ibverbs/ibverbs.h"

namespace rondo::verbs {

// The devices nic0 and nic1.
struct PlayedVerbs {
  struct Told {
    std::uint64_t offset, bytes, iova;
    int file;
    unsigned access;
  };
  ibv_device devices[2] = {};
  ibv_device* list[3] = {&devices[0], &devices[1], nullptr};
  std::vector<Told> told;      // of dmabuf files
  int refused_by = -1;         // the device that takes none
  std::size_t registered = 0;  // by anybody, now
  std::uint32_t keys = 100;
  std::vector<ibv_async_event> events;  // that the devices have to tell, the next one last
};
inline PlayedVerbs* played = nullptr;  // the running test's

inline int device_of(const ibv_pd* domain) {
  return domain->context->device == &played->devices[1] ? 1 : 0;
}
inline ibv_mr* registration(ibv_pd* domain) {
  ++played->registered;
  auto* const made = new ibv_mr{};
  made->pd = domain;
  made->lkey = ++played->keys;
  made->rkey = made->lkey + 1000;
  return made;
}

inline const Ibverbs& played_functions() {
  static const Ibverbs functions = [] {
    Ibverbs f{};
    f.get_device_list = [](int* count) { return *count = 2, played->list; };
    f.free_device_list = [](ibv_device**) {};
    f.get_device_name = [](ibv_device* device) {
      return device == &played->devices[0] ? "nic0" : "nic1";
    };
    f.open_device = [](ibv_device* device) {
      auto* const made = new ibv_context{};
      made->device = device;
      made->async_fd = eventfd(0, EFD_NONBLOCK);
      made->ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return 0; };
      made->ops.post_send = [](ibv_qp*, ibv_send_wr*, ibv_send_wr**) { return 0; };
      made->ops.post_recv = [](ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) { return 0; };
      return made;
    };
    f.close_device = [](ibv_context* context) {
      close(context->async_fd);
      delete context;
      return 0;
    };
    f.query_port_compat = [](ibv_context*, std::uint8_t, _compat_ibv_port_attr* into) {
      auto* const attributes = reinterpret_cast<ibv_port_attr*>(into);
      attributes->state = IBV_PORT_ACTIVE;
      attributes->active_mtu = IBV_MTU_1024;
      attributes->max_msg_sz = 1u << 30;
      return 0;
    };
    f.get_async_event = [](ibv_context*, ibv_async_event* event) {
      if (played->events.empty()) return errno = EAGAIN, -1;
      *event = played->events.back();
      played->events.pop_back();
      return 0;
    };
    f.ack_async_event = [](ibv_async_event*) {};
    f.alloc_pd = [](ibv_context* context) { return new ibv_pd{context, 0}; };
    f.dealloc_pd = [](ibv_pd* domain) { return delete domain, 0; };
    f.reg_mr = [](ibv_pd* domain, void*, std::size_t, int) { return registration(domain); };
    f.dereg_mr = [](ibv_mr* region) {
      --played->registered;
      return delete region, 0;
    };
    f.reg_dmabuf_mr = [](ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                         std::uint64_t iova, int file, int access) -> ibv_mr* {
      if (device_of(domain) == played->refused_by) return errno = EOPNOTSUPP, nullptr;
      played->told.push_back({offset, bytes, iova, file, static_cast<unsigned>(access)});
      return registration(domain);
    };
    f.create_comp_channel = [](ibv_context* context) {
      return new ibv_comp_channel{context, eventfd(0, EFD_NONBLOCK), 0};
    };
    f.destroy_comp_channel = [](ibv_comp_channel* channel) {
      close(channel->fd);
      return delete channel, 0;
    };
    f.create_cq = [](ibv_context* context, int entries, void*, ibv_comp_channel*, int) {
      auto* const made = new ibv_cq{};
      made->context = context;
      made->cqe = entries;
      return made;
    };
    f.destroy_cq = [](ibv_cq* queue) { return delete queue, 0; };
    f.create_qp = [](ibv_pd* domain, ibv_qp_init_attr*) {
      auto* const made = new ibv_qp{};
      made->context = domain->context;
      return made;
    };
    f.modify_qp = [](ibv_qp*, ibv_qp_attr*, int) { return 0; };
    f.destroy_qp = [](ibv_qp* pair) { return delete pair, 0; };
    return f;
  }();
  return functions;
}

}  // namespace rondo::verbs
