// SPDX-License-Identifier: Apache-2.0
// VerifiedCalls: makes some collectives again, in part, and compares (RONDO_VERIFY=1/N).
//
// Of about one call in N, chosen by the call's number and the communicator's secret, all ranks keep
// a random slice of their inputs. After the call they exchange these slices by an all-gather of the
// same engine, compute the results again (checked_values.h) and compare them with their outputs. A
// second, small all-gather tells every rank what each has found: a difference is the same fault on
// all ranks. Calls up to 1 MiB over all ranks are compared whole, longer ones in a random part.
//
// Guarantees: all ranks verify the same calls; correct results raise nothing. Not verified: sends
// and receives of the program, puts, and kernels on GPUs. Cost: nothing if off; on, a plan for each
// call, and two all-gathers for each verified one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/context/call.h"
#include "collectives/host/checked_values.h"
#include "collectives/rank/rank_context.h"
#include "kernels/host/segments.h"
#include "transport/bootstrap/secret.h"

namespace rondo {

// A collective by its buffers: a single call, a fused group, or the messages of a v-collective.
struct VerifiedCall {
  CallRecord record;        // as announced
  std::uint64_t count = 0;  // elements of a block; 0: by messages
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  const std::byte* scalar = nullptr;            // of PreMulSum
  const host::Segments* segments = nullptr;     // a fused group; then no input and output
  const std::vector<Call>* messages = nullptr;  // a v-collective; then no input and output
  Exactness exactness = Exactness::kTreeBits;
};

class VerifiedCalls : RankPart {
 public:
  // Makes a collective that is not verified itself.
  using Exchange = std::function<Status(const Call&)>;
  VerifiedCalls(RankContext& context, Exchange exchange)
      : RankPart(context), exchange_(std::move(exchange)) {}

  // every: agreed by all ranks; 0: off.
  void start(std::uint64_t every, const bootstrap::Secret& secret);
  bool is_on() const { return every_ != 0; }
  // Counts one call. True on all ranks or on none: the caller makes the call by run().
  bool is_next_due();
  Status run(const VerifiedCall& call, const std::function<Status()>& run_call);

 private:
  // Of each block from `first_block` on, elements `at` to `at + count`; messages have counts of
  // their own.
  struct Slice {
    std::uint64_t random = 0;
    int first_block = 0, blocks = 1;
    std::uint64_t capacity = 0;  // elements exchanged of a block

    struct Range {
      std::uint64_t at, count;
    };
    Range of(std::uint64_t block_count) const;
  };
  struct Verdict {  // of one rank; exchanged
    std::uint64_t wrong = 0, compared = 0, element = 0, got = 0, want = 0;
    std::int32_t source = -1;   // a copy: the rank whose element it is
    std::int32_t segment = -1;  // of a fused group
  };

  Slice choose(const VerifiedCall& call) const;
  void keep_inputs(const VerifiedCall& call, const Slice& slice);
  Status gather(const void* mine, void* all, std::size_t bytes);
  Verdict compare(const VerifiedCall& call, const Slice& slice);
  void compare_sum(const VerifiedCall& call, const Slice& slice, Verdict* verdict);
  void compare_copy(const VerifiedCall& call, const Slice& slice, int source, Verdict* verdict);
  const std::byte* kept_of(int rank, const Slice& slice, std::size_t element) const;
  Status raise(const VerifiedCall& call, std::uint64_t number, std::span<const Verdict> verdicts);

  Exchange exchange_;
  std::uint64_t every_ = 0, seed_ = 0, calls_ = 0;
  std::vector<std::byte> kept_, gathered_, output_, scratch_;
};

// "1/1000" -> 1000, "1" -> 1, "0" or "" -> 0 (off).
Result<std::uint64_t> parse_verified(std::string_view text, std::string_view source);
Result<std::uint64_t> verified_by_environment();  // RONDO_VERIFY

}  // namespace rondo
