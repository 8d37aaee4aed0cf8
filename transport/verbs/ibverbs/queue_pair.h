// SPDX-License-Identifier: Apache-2.0
// QueuePair: one end of a reliable connection between two RDMA ports. Each end writes into the
// other's registered memory; a write can notify the other end with a 32-bit number ("ring").
//
// Guarantees: writes of one queue pair arrive in the order in which they were posted; writes of two
// arrive in any order. Nothing blocks. After a failure no more data is transferred. failure_of()
// makes the error text from the first failed completion, whatever its status; which one is first
// differs between devices. A device whose port is down may report nothing, so a caller that waits
// needs its own deadline. Cost: post() is a few stores and a doorbell, without a lock or allocation
// of Rondo; connect() is three system calls.
//
//   RONDO_TRY(auto pair, QueuePair::create(device, {.sends = 64, .receives = 64}));
//   send(serialize(pair->endpoint()));
//   RONDO_CHECK_OK(pair->connect(peer));
//   RONDO_CHECK_OK(pair->post_receives(64));
//   const Write writes[] = {{body, key, to, its_key}, {header, 0, to2, its_key2, .rings = 7}};
//   RONDO_CHECK_OK(pair->post(writes));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "transport/verbs/endpoint.h"
#include "transport/verbs/ibverbs/device_context.h"

namespace rondo::verbs {

struct Write {
  std::span<const std::byte> from{};
  std::uint32_t local_key = 0;  // key of `from`; unused if inlined
  std::uint64_t to = 0;         // address in the peer's memory
  std::uint32_t remote_key = 0;
  std::optional<std::uint32_t> rings{};  // the peer gets a completion with this number
  bool inlined = false;                  // copied during post(): at most kMaxInlined bytes
  bool completes = false;                // this end gets a completion with `id`
  std::uint64_t id = 0;
};

struct Read {
  std::span<std::byte> into{};
  std::uint32_t local_key = 0;
  std::uint64_t from = 0;  // address in the peer's memory
  std::uint32_t remote_key = 0;
  std::uint64_t id = 0;  // id of its completion
};

class QueuePair {
 public:
  static constexpr std::size_t kMaxInlined = 64;
  static constexpr std::size_t kMaxWrites = 8;  // per post()

  // Maximum numbers of requests that are posted and not completed.
  struct Depth {
    int sends = 64;
    int receives = 64;
    bool is_read = false;  // the peer can read memory here that is registered for reads
  };
  static Result<std::unique_ptr<QueuePair>> create(DeviceContext& device, Depth depth);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  Endpoint endpoint() const { return own_; }
  std::uint32_t number() const { return own_.queue_pair; }  // ibv_wc::qp_num of its completions
  Status connect(const Endpoint& peer);

  // Posts all writes, or returns an error; after an error the pair is unusable.
  Status post(std::span<const Write> writes);
  Status post_read(const Read& read);
  // Accepts `count` more ringing writes of the peer. Their completions have the id `id`.
  Status post_receives(int count, std::uint64_t id = 0);

  // After this no write of the peer takes effect here, and every posted request completes, with an
  // error if it had not taken effect. Requests done before the stop complete before those.
  void stop();

  // The error text for a failed completion of this pair.
  Error failure_of(const ibv_wc& completion) const;
  // "rxe0:1 (10.77.0.1) queue pair 17 to 10.77.0.2 queue pair 18", for messages.
  std::string text() const;

 private:
  QueuePair(DeviceContext& device, ibv_qp* pair);
  Status change(ibv_qp_attr attributes, int mask, const char* what);

  DeviceContext& device_;
  ibv_qp* const pair_;
  Endpoint own_;
  Endpoint peer_;
};

}  // namespace rondo::verbs
