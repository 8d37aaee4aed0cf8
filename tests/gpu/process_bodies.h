// What ranks in processes do in several tests, wherever their GPUs are.
#pragma once

#include <initializer_list>

#include "tests/gpu/process_ranks.h"

namespace rondo::test {

inline constexpr Collective kEveryCollective[] = {
    Collective::kAllReduce,     Collective::kReduce,   Collective::kBroadcast,
    Collective::kAllGather,     Collective::kGather,   Collective::kScatter,
    Collective::kReduceScatter, Collective::kAllToAll,
};

// This rank's part of a collective, which must equal the reference's.
void run_case(GpuSeat& seat, const Case& c, const RankCase::Options& options);

// Every collective in every count, of types in turn; odd alignments, half of them in place.
// mapped: whether a rank's buffers are by ncclMemAlloc in the case of this number.
void run_every_collective(GpuSeat& seat, std::initializer_list<std::size_t> counts,
                          std::initializer_list<DataType> types,
                          bool (*mapped)(int rank, int number));

// Each rank's message to its right.
void pass_round_a_ring(GpuSeat& seat, std::initializer_list<std::size_t> sizes);

// Hundreds of calls on the same buffer, more than a rank may run ahead, on three streams in turn.
void call_on_several_streams(GpuSeat& seat);

// A sum of ones, each times its rank's factor, which lies in device memory.
void scale_by_factors_on_the_device(GpuSeat& seat);

}  // namespace rondo::test
