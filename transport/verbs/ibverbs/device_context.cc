// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/ibverbs/device_context.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"

namespace rondo::verbs {
namespace {

Status set_nonblocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
    return fail_errno(errno, "fcntl of an RDMA device's descriptor");
  return ok_status();
}

}  // namespace

DeviceContext::DeviceContext(const Ibverbs& verbs, const Port& port, const Options& options)
    : verbs_(verbs), port_(port), options_(options), name_(port.name()) {}

Result<std::unique_ptr<DeviceContext>> DeviceContext::open(const Port& port, const Options& options,
                                                           int completions) {
  const Ibverbs* verbs = options.functions;
  if (verbs == nullptr) {
    RONDO_TRY(verbs, Ibverbs::load());
  }
  std::unique_ptr<DeviceContext> device(new DeviceContext(*verbs, port, options));
  RONDO_TRY(device->gid_, choose_gid(port, options.gid_index));
  RONDO_CHECK_OK(device->find_and_open());
  RONDO_CHECK_OK(device->make(completions));
  return device;
}

DeviceContext::~DeviceContext() {
  if (queue_ != nullptr) verbs_.destroy_cq(queue_);
  if (channel_ != nullptr) verbs_.destroy_comp_channel(channel_);
  if (domain_ != nullptr) verbs_.dealloc_pd(domain_);
  if (context_ != nullptr) verbs_.close_device(context_);
}

Status DeviceContext::find_and_open() {
  int count = 0;
  ibv_device** const list = verbs_.get_device_list(&count);
  if (list == nullptr) return fail_errno(errno, "libibverbs lists no devices");
  ibv_device** const end = list + count;
  ibv_device** const found = std::find_if(
      list, end, [&](ibv_device* each) { return port_.device == verbs_.get_device_name(each); });
  const bool offered = found != end;
  if (offered) context_ = verbs_.open_device(*found);
  const int error = errno;
  verbs_.free_device_list(list);
  if (!offered)
    return fail(StatusCode::kSystemError,
                "libibverbs does not offer {}: install its provider (ibverbs-providers), and check "
                "that /dev/infiniband exists",
                port_.device);
  if (context_ == nullptr)
    return fail_errno(error, "{} cannot be opened (see the rights of /dev/infiniband)",
                      port_.device);
  return ok_status();
}

Status DeviceContext::make(int completions) {
  ibv_port_attr attributes{};
  const auto number = static_cast<std::uint8_t>(port_.number);
  if (const int error = verbs_.query_port(context_, number, &attributes); error != 0)
    return fail_errno(error, "cannot query the state of {}", name_);
  mtu_ = static_cast<std::uint16_t>(128u << attributes.active_mtu);  // IBV_MTU_256 is 1
  lid_ = attributes.lid;
  max_bytes_ = attributes.max_msg_sz;
  down_ = attributes.state != IBV_PORT_ACTIVE;
  domain_ = verbs_.alloc_pd(context_);
  if (domain_ == nullptr)
    return fail_errno(errno, "cannot create a protection domain on {}", name_);
  channel_ = verbs_.create_comp_channel(context_);
  if (channel_ == nullptr)
    return fail_errno(errno, "cannot create a completion channel on {}", name_);
  queue_ = verbs_.create_cq(context_, completions, this, channel_, 0);
  if (queue_ == nullptr)
    return fail_errno(errno, "cannot create a queue for {} completions on {}", completions, name_);
  RONDO_CHECK_OK(set_nonblocking(channel_->fd));
  return set_nonblocking(context_->async_fd);
}

Status DeviceContext::reserve(int completions) {
  if (completions <= queue_->cqe) return ok_status();
  const int wanted = std::max(completions, 2 * queue_->cqe);
  if (verbs_.resize_cq(queue_, wanted) == 0) return ok_status();
  if (const int error = verbs_.resize_cq(queue_, completions); error != 0)
    return fail_errno(error, "the queue of {} completions on {} cannot grow to {}", queue_->cqe,
                      name_, completions);
  return ok_status();
}

Result<int> DeviceContext::poll(std::span<ibv_wc> into) {
  const int count = ibv_poll_cq(queue_, static_cast<int>(into.size()), into.data());
  if (count < 0 || failed_) [[unlikely]]
    return fail(StatusCode::kSystemError, "the RDMA device {} has failed: see dmesg", name_);
  return count;
}

Status DeviceContext::arm() {
  ibv_cq* queue = nullptr;
  void* cookie = nullptr;
  unsigned rung = 0;
  while (verbs_.get_cq_event(channel_, &queue, &cookie) == 0) ++rung;
  if (rung > 0) verbs_.ack_cq_events(queue_, rung);
  if (const int error = ibv_req_notify_cq(queue_, 0); error != 0)
    return fail_errno(error, "{} cannot report completions by events", name_);
  return ok_status();
}

void DeviceContext::read_events() {
  ibv_async_event event{};
  while (verbs_.get_async_event(context_, &event) == 0) {
    const bool ours = event.element.port_num == port_.number;
    switch (event.event_type) {
      case IBV_EVENT_PORT_ERR:
        if (ours) down_ = true;
        break;
      case IBV_EVENT_PORT_ACTIVE:
        if (ours) down_ = false;
        read_addresses();
        break;
      case IBV_EVENT_GID_CHANGE:
      case IBV_EVENT_LID_CHANGE:
        read_addresses();
        break;
      case IBV_EVENT_DEVICE_FATAL:
      case IBV_EVENT_CQ_ERR:
        failed_ = true;
        break;
      default:  // of one queue pair: its completions report it
        break;
    }
    RONDO_INFO(kNet, "RDMA device {}: event {}{}", name_, static_cast<int>(event.event_type),
               down_ ? ", the port is down" : "");
    verbs_.ack_async_event(&event);
  }
}

// An interface that went down has lost its addresses. When it is up again it can have others, or
// the same at other indexes of the table. Until it has a usable one, the last one is kept.
void DeviceContext::read_addresses() {
  ibv_port_attr attributes{};
  if (verbs_.query_port(context_, static_cast<std::uint8_t>(port_.number), &attributes) == 0)
    lid_ = attributes.lid;
  for (const Port& port : read_ports(options_.root)) {
    if (port.name() != name_) continue;
    if (const auto gid = choose_gid(port, options_.gid_index); gid.ok()) gid_ = *gid;
  }
}

Endpoint DeviceContext::endpoint() const {
  Endpoint endpoint{.ethernet = port_.ethernet, .mtu = mtu_};
  if (port_.ethernet) {
    endpoint.gid = gid_.bytes;
  } else {
    endpoint.lid = lid_;
  }
  return endpoint;
}

}  // namespace rondo::verbs
