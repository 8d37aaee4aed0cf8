// SPDX-License-Identifier: Apache-2.0
#include "tests/support/check_call.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "transport/shm/arena.h"

namespace rondo::test {
namespace {

bool rooted(Collective collective) {
  return collective == Collective::kReduce || collective == Collective::kBroadcast ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

// Buffers of one rank with guard bytes around them, `shift` bytes off alignment.
struct Buffers {
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kFill{0xa5};

  Buffers(std::size_t bytes, std::size_t shift, Memory where)
      : length(bytes + 2 * kGuard + shift), begin(kGuard + shift), size(bytes) {
    if (where == Memory::kMapped)
      mapped = static_cast<std::byte*>(*(*shm::Arena::of_process())->allocate(length));
    else
      heap.resize(length);
    memory = mapped != nullptr ? mapped : heap.data();
    std::fill(memory, memory + length, kFill);
  }
  ~Buffers() {
    if (mapped != nullptr) (void)(*shm::Arena::of_process())->free(mapped).ok();
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  std::byte* data() { return memory + begin; }
  bool guards_intact() const {
    for (std::size_t i = 0; i < length; ++i)
      if ((i < begin || i >= begin + size) && memory[i] != kFill) return false;
    return true;
  }
  Bytes heap;
  std::byte* mapped = nullptr;
  std::byte* memory = nullptr;
  std::size_t length, begin, size;
};

}  // namespace

std::string check_call(Communicator& comm, const Case& c, bool in_place, std::size_t shift,
                       Memory memory) {
  const int rank = comm.rank();
  const std::size_t width = size_of(c.type);
  const Bytes input = make_input(c, rank);
  const Bytes want = expected_output(c, rank);
  const std::size_t in_bytes = input_elements(c) * width, out_bytes = output_elements(c) * width;
  Buffers in(in_bytes, shift, memory), out(std::max(in_bytes, out_bytes), shift, memory);
  Call call;
  call.record = {c.count, c.collective, c.type, c.op, 0, rooted(c.collective) ? c.root : -1};
  const Bytes scalar = make_scalar(c, rank);
  std::memcpy(call.scalar.data(), scalar.data(), width);
  call.send = in.data();
  call.receive = out.data();
  std::byte* result = out.data();
  if (in_place) {
    // The rank's own block within the larger side.
    const std::size_t block = c.count * width;
    std::byte* own = out.data();
    if (c.collective == Collective::kAllGather || c.collective == Collective::kGather) {
      own = out.data() + (c.collective == Collective::kGather ? c.root : rank) * block;
      if (c.collective == Collective::kGather && rank != c.root) own = out.data();
    }
    call.send = own;
    std::memcpy(own, input.data(), in_bytes);
    if (c.collective == Collective::kReduceScatter ||
        (c.collective == Collective::kScatter && rank == c.root)) {
      result = out.data() + rank * block;
      call.receive = result;
    }
  } else {
    std::memcpy(in.data(), input.data(), in_bytes);
  }
  const Status ran = comm.run({&call, 1});
  const std::string what =
      fmt::format("rank {}: {} {} {} n={} root={} count={} {} shift={} seed={}", rank,
                  name(c.collective), name(c.type), name(c.op), c.ranks, c.root, c.count,
                  in_place ? "in place" : "out of place", shift, c.seed);
  if (!ran.ok()) return what + ": " + ran.error().text;
  const std::ptrdiff_t at = first_difference(c.type, result, want.data(), want.size() / width);
  if (at != -1) return fmt::format("{}: element {} is wrong", what, at);
  if (!out.guards_intact()) return what + ": bytes beside the output were written";
  if (!in_place && std::memcmp(in.data(), input.data(), in_bytes) != 0)
    return what + ": the input was changed";
  return "";
}

}  // namespace rondo::test
