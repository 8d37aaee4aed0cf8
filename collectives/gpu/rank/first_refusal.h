// SPDX-License-Identifier: Apache-2.0
// first_refusal(): all ranks learn whether each of them could take a step, and who could not.
//
// Answer is one rank's answer as bytes, for exchanges that carry several of them. Collective.
// Guarantees: the same result on all ranks. Cost: one exchange.
//
//   RONDO_TRY(const auto refusal, first_refusal(exchange, own_status));
//   if (refusal) ... refusal->rank, refusal->code, refusal->text ...
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "collectives/context/gpu_rank.h"

namespace rondo::gpu {

struct Answer {
  std::uint64_t code = 0;  // StatusCode
  char text[312]{};

  static Answer of(const Status& own) {
    Answer answer;
    answer.code = static_cast<std::uint64_t>(own.code());
    if (!own.ok()) own.error().text.copy(answer.text, sizeof(answer.text) - 1);
    return answer;
  }
  // The answer of this number in a rank's bytes.
  static Answer in(const std::vector<std::byte>& bytes, std::size_t number = 0) {
    Answer answer;
    std::memcpy(&answer, bytes.data() + number * sizeof(answer), sizeof(answer));
    answer.text[sizeof(answer.text) - 1] = '\0';
    return answer;
  }
  bool ok() const { return code == static_cast<std::uint64_t>(StatusCode::kSuccess); }
};
static_assert(std::is_trivially_copyable_v<Answer>);

struct RankRefusal {
  int rank;
  StatusCode code;
  std::string text;
};

// Of `count` answers per rank, the number-th.
inline std::optional<RankRefusal> first_refusal_in(
    const std::vector<std::vector<std::byte>>& gathered, std::size_t number = 0) {
  for (std::size_t r = 0; r < gathered.size(); ++r)
    if (const Answer answer = Answer::in(gathered[r], number); !answer.ok())
      return RankRefusal{static_cast<int>(r), static_cast<StatusCode>(answer.code), answer.text};
  return std::nullopt;
}

inline Result<std::optional<RankRefusal>> first_refusal(const Exchange& exchange,
                                                        const Status& own) {
  const Answer mine = Answer::of(own);
  RONDO_TRY(const auto gathered, exchange(std::as_bytes(std::span(&mine, 1))));
  return first_refusal_in(gathered);
}

}  // namespace rondo::gpu
