// QueuePair: one end of a reliable connection between two RDMA ports. Each end writes into the
// other's registered memory; a write may ring there with a number of 32 bits.
//
// Guarantees: writes of one queue pair arrive in the order in which they were posted, those of two
// in any. Nothing blocks. After a failure nothing more goes through. failure_of() makes the error
// text from the first completion that failed, with any status; which one comes first differs
// between devices. A device whose port is down may report nothing at all, so a caller that waits
// needs a deadline of its own. Cost: post() is a few stores and a doorbell, and takes no lock or
// allocation of Rondo's; connect() three system calls.
//
//   RONDO_TRY(auto pair, QueuePair::create(device, {.sends = 64, .receives = 64}));
//   send(serialize(pair->endpoint()));
//   RONDO_CHECK_OK(pair->connect(peer));
//   RONDO_CHECK_OK(pair->post_receives(64));
//   const Write writes[] = {{body, key, there, its_key}, {header, 0, there2, its_key2, .rings =
//   7}}; RONDO_CHECK_OK(pair->post(writes));
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
  std::uint32_t local_key = 0;  // of `from`; not looked at where it is inlined
  std::uint64_t to = 0;         // address in the peer's memory
  std::uint32_t remote_key = 0;
  std::optional<std::uint32_t> rings{};  // the peer gets a completion with this number
  bool inlined = false;                  // copied during post(): at most kMaxInlined bytes
  bool completes = false;                // a completion here, too, with `id`
  std::uint64_t id = 0;
};

struct Read {
  std::span<std::byte> into{};
  std::uint32_t local_key = 0;
  std::uint64_t from = 0;  // address in the peer's memory
  std::uint32_t remote_key = 0;
  std::uint64_t id = 0;  // of its completion
};

class QueuePair {
 public:
  static constexpr std::size_t kMaxInlined = 64;
  static constexpr std::size_t kMaxWrites = 8;  // of one post()

  // How many may be posted and not completed yet.
  struct Depth {
    int sends = 64;
    int receives = 64;
    bool is_read = false;  // its peer may read memory here that is registered for that
  };
  static Result<std::unique_ptr<QueuePair>> create(DeviceContext& device, Depth depth);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  Endpoint endpoint() const { return own_; }
  std::uint32_t number() const { return own_.queue_pair; }  // ibv_wc::qp_num of its completions
  Status connect(const Endpoint& peer);

  // Takes effect whole or is an error, after which the pair is of no more use.
  Status post(std::span<const Write> writes);
  Status post_read(const Read& read);
  // Room for `count` more of the peer's writes that ring. Their completions have the id `id`.
  Status post_receives(int count, std::uint64_t id = 0);

  // From now on nothing that the peer sends takes effect here, and whatever is posted completes
  // (with an error, where it had not taken effect): what was done before has completed before that.
  void stop();

  // Of a completion of this pair whose status is no success.
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
