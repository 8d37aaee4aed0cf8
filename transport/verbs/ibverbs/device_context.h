// SPDX-License-Identifier: Apache-2.0
// DeviceContext: one port of an RDMA device, opened by one rank: a protection domain for its
// memory, one completion queue for all of its queue pairs, and descriptors to sleep on.
//
// Guarantees: nothing blocks or waits; error texts name the port. For one thread at a time. All
// objects made from a context must be destroyed before it. Cost: open() takes some milliseconds;
// poll() without completions is a few loads and no system call; arm() is at least one system call.
//
//   RONDO_TRY(auto device, DeviceContext::open(port, options, 256));
//   for (;;) {
//     RONDO_TRY(const int count, device->poll(completions));
//     if (count > 0) work(); else if (idle_for_long()) { device->arm(); poll again, then sleep(); }
//   }
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "transport/verbs/devices.h"
#include "transport/verbs/endpoint.h"
#include "transport/verbs/ibverbs/ibverbs.h"

namespace rondo::verbs {

class DeviceContext {
 public:
  // `completions`: capacity of the queue: the sum of what all queue pairs can have posted.
  static Result<std::unique_ptr<DeviceContext>> open(const Port& port, const Options& options,
                                                     int completions);
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  // Makes room in the queue for `completions` at once. It grows by doubling.
  Status reserve(int completions);
  // Takes completions off the queue and returns their number. Error: the device has failed.
  Result<int> poll(std::span<ibv_wc> into);
  // completion_fd() becomes readable (poll(2)) with the next completion. Poll once more before
  // sleeping: a completion that arrived before arm() does not make it readable.
  Status arm();
  int completion_fd() const { return channel_->fd; }

  // Readable when the device has an event: its port went down or came up, its addresses changed, or
  // it failed permanently. read_events() reads all of them. Queue pairs made after that have the
  // port's new address.
  int event_fd() const { return context_->async_fd; }
  void read_events();
  bool port_is_down() const { return down_; }

  const Ibverbs& verbs() const { return verbs_; }
  const Options& options() const { return options_; }
  const Port& port() const { return port_; }
  const std::string& name() const { return name_; }  // "mlx5_0:1"
  ibv_pd* domain() const { return domain_; }
  ibv_cq* completions() const { return queue_; }
  std::uint64_t max_bytes() const { return max_bytes_; }  // maximum of one write
  int gid_index() const { return gid_.index; }
  // The address of this port's queue pairs; the caller fills in their numbers.
  Endpoint endpoint() const;

 private:
  DeviceContext(const Ibverbs& verbs, const Port& port, const Options& options);
  Status find_and_open();
  Status make(int completions);
  void read_addresses();

  const Ibverbs& verbs_;
  const Port port_;
  const Options options_;
  const std::string name_;
  Gid gid_;
  std::uint16_t mtu_ = 0;
  std::uint16_t lid_ = 0;
  std::uint64_t max_bytes_ = 0;
  bool down_ = false;
  bool failed_ = false;
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
};

}  // namespace rondo::verbs
