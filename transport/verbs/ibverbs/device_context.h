// DeviceContext: a port of an RDMA device as one rank has opened it: a protection domain for its
// memory, one completion queue for all of its queue pairs, and descriptors to sleep on.
//
// Guarantees: nothing blocks or waits; errors are sentences that name the port. One thread at a
// time. Everything that was made from a context goes before it. Cost: open() some milliseconds;
// poll() without completions is a few loads and no system call; arm() may be one system call.
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
#include "transport/verbs/choice.h"
#include "transport/verbs/endpoint.h"
#include "transport/verbs/ibverbs/ibverbs.h"

namespace rondo::verbs {

class DeviceContext {
 public:
  // `completions`: how many may lie in the queue at once: the sum of what all queue pairs post.
  static Result<std::unique_ptr<DeviceContext>> open(const Port& port, const Options& options,
                                                     int completions);
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  // From now on the queue has room for `completions` at once. Grows by doubling.
  Status reserve(int completions);
  // Takes completions off the queue: how many. An error: the device itself has failed.
  Result<int> poll(std::span<ibv_wc> into);
  // completion_fd() becomes readable (poll(2)) with the next completion. Poll once more before you
  // sleep: one that came in between does not ring.
  Status arm();
  int completion_fd() const { return channel_->fd; }

  // What the device says of itself: its port went down or came up, its addresses are others, or it
  // failed for good. Readable when there is something to read; read_events() takes all that there
  // is. Queue pairs that are made from then on have the port's new address.
  int event_fd() const { return context_->async_fd; }
  void read_events();
  bool port_is_down() const { return down_; }

  const Ibverbs& verbs() const { return verbs_; }
  const Options& options() const { return options_; }
  const Port& port() const { return port_; }
  const std::string& name() const { return name_; }  // "mlx5_0:1"
  ibv_pd* domain() const { return domain_; }
  ibv_cq* completions() const { return queue_; }
  std::uint64_t max_bytes() const { return max_bytes_; }  // of one write
  int gid_index() const { return gid_.index; }
  // Where queue pairs of this port are; their numbers are to be filled in.
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
