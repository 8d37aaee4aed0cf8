// SPDX-License-Identifier: Apache-2.0
// Simulated RDMA ports: devices that accept every request, transfer nothing, and record the
// requests.
#pragma once

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "transport/verbs/ibverbs/adapters.h"

namespace rondo::verbs {

// libibverbs with the devices nic0 and nic1.
struct FakeVerbs {
  struct Registration {
    std::uint64_t offset, bytes, iova;
    int file;
    unsigned access;
  };
  ibv_device devices[2] = {};
  ibv_device* list[3] = {&devices[0], &devices[1], nullptr};
  std::vector<Registration> registrations;  // registrations of dmabuf files
  int refused_by = -1;                      // the device that refuses them; -1: none
  std::size_t registered = 0;               // registrations that exist now
  std::uint32_t keys = 100;
  struct Posted {
    int device;
    std::uint64_t to;
    std::uint32_t key;
    std::uint32_t bytes;
    std::uint64_t value;  // of eight bytes, which the device copies at once
  };
  std::vector<Posted> posted;           // writes, in order
  std::vector<ibv_async_event> events;  // events to report, the next one last
  static Posted what(const ibv_qp& pair, const ibv_send_wr& request);
};
inline FakeVerbs* fake = nullptr;  // of the running test

inline FakeVerbs::Posted FakeVerbs::what(const ibv_qp& pair, const ibv_send_wr& request) {
  Posted posted{pair.context->device == &fake->devices[1] ? 1 : 0, request.wr.rdma.remote_addr,
                request.wr.rdma.rkey, request.num_sge == 0 ? 0 : request.sg_list[0].length, 0};
  if ((request.send_flags & IBV_SEND_INLINE) != 0 && posted.bytes == sizeof(posted.value))
    std::memcpy(&posted.value, reinterpret_cast<const void*>(request.sg_list[0].addr),
                sizeof(posted.value));
  return posted;
}

inline int device_of(const ibv_pd* domain) {
  return domain->context->device == &fake->devices[1] ? 1 : 0;
}
inline ibv_mr* registration(ibv_pd* domain) {
  ++fake->registered;
  auto* const made = new ibv_mr{};
  made->pd = domain;
  made->lkey = ++fake->keys;
  made->rkey = made->lkey + 1000;
  return made;
}

inline const Ibverbs& fake_functions() {
  static const Ibverbs functions = [] {
    Ibverbs f{};
    f.get_device_list = [](int* count) { return *count = 2, fake->list; };
    f.free_device_list = [](ibv_device**) {};
    f.get_device_name = [](ibv_device* device) {
      return device == &fake->devices[0] ? "nic0" : "nic1";
    };
    f.open_device = [](ibv_device* device) {
      auto* const made = new ibv_context{};
      made->device = device;
      made->async_fd = eventfd(0, EFD_NONBLOCK);
      made->ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return 0; };
      made->ops.post_send = [](ibv_qp* pair, ibv_send_wr* request, ibv_send_wr**) {
        for (; request != nullptr; request = request->next)
          fake->posted.push_back(FakeVerbs::what(*pair, *request));
        return 0;
      };
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
      if (fake->events.empty()) return errno = EAGAIN, -1;
      *event = fake->events.back();
      fake->events.pop_back();
      return 0;
    };
    f.ack_async_event = [](ibv_async_event*) {};
    f.alloc_pd = [](ibv_context* context) { return new ibv_pd{context, 0}; };
    f.dealloc_pd = [](ibv_pd* domain) { return delete domain, 0; };
    f.reg_mr = [](ibv_pd* domain, void*, std::size_t, int) { return registration(domain); };
    f.dereg_mr = [](ibv_mr* region) {
      --fake->registered;
      return delete region, 0;
    };
    f.reg_dmabuf_mr = [](ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                         std::uint64_t iova, int file, int access) -> ibv_mr* {
      if (device_of(domain) == fake->refused_by) return errno = EOPNOTSUPP, nullptr;
      fake->registrations.push_back({offset, bytes, iova, file, static_cast<unsigned>(access)});
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

class OnFakeVerbs : public testing::Test {
 public:
  ~OnFakeVerbs() override { EXPECT_EQ(fake_.registered, 0u); }

 protected:
  void SetUp() override { fake = &fake_; }

  std::unique_ptr<Adapters> open(const Ibverbs& functions = fake_functions(), int ports = 1) {
    std::vector<Port> all;
    for (int i = 0; i < ports; ++i) {
      Port& port = all.emplace_back();
      port.device = i == 0 ? "nic0" : "nic1";
      port.active = true;
      port.gids.push_back({1, {}, true});
    }
    Options options;
    options.functions = &functions;
    auto made = Adapters::open(all, options, 1);
    EXPECT_TRUE(made.ok());
    return std::move(made).value();
  }
  FakeVerbs fake_;
};

}  // namespace rondo::verbs
