// SlotPrimitives: the host executor of the Primitives verbs over two Connections (to the next rank,
// from the previous one).
//
// Every verb moves at most one slot. The first slot from the previous rank of each call carries
// that rank's record, compared with this rank's own (and so does every other slot: it is the same
// line). Reductions read the arrived slot and write the outgoing one, without a copy in between.
#pragma once

#include <memory>

#include "kernels/host/host_rank.h"
#include "kernels/host/reduce_kernels.h"
#include "kernels/host/slots.h"
#include "kernels/primitives.h"

namespace rondo::host {

class SlotPrimitives {
 public:
  // `ranks` is the divisor of avg. next and previous may be null where the text never uses them.
  SlotPrimitives(HostRank& rank, const HostCall& call, Connection* next, Connection* previous,
                 int ranks);

  bool failed() const { return failed_; }

  void send(const Chunk& c);
  void recv(const Chunk& c);
  void copy_send(const Chunk& c);
  void recv_copy_send(const Chunk& c);
  void recv_reduce_send(const Chunk& c);
  void recv_reduce_copy(const Chunk& c);
  void recv_reduce_copy_send(const Chunk& c);

 private:
  const std::byte* input(const Chunk& c) const {
    return static_cast<const std::byte*>(call_.input) + c.in_at * element_;
  }
  std::byte* output(const Chunk& c) const {
    return static_cast<std::byte*>(call_.output) + c.out_at * element_;
  }
  bool skip(const Chunk& c) const { return failed_ || c.count == 0; }
  bool wait_free();
  bool wait_full(const Chunk& c);
  // This rank's operand; PreMulSum scales it into scratch first.
  const std::byte* operand(const Chunk& c);
  void combine(const Chunk& c, void* const* targets, int count, bool finish);

  HostRank& rank_;
  const HostCall& call_;
  std::size_t element_;
  Connection* next_;
  Connection* previous_;
  int ranks_;
  std::unique_ptr<std::byte[]> scratch_;  // PreMulSum alone
  bool failed_ = false;
};

static_assert(Primitives<SlotPrimitives>);

}  // namespace rondo::host
