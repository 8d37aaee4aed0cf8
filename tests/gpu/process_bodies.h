// What ranks in processes do in several tests, wherever their GPUs are.
#pragma once

#include <initializer_list>

#include "tests/gpu/device_case.h"

namespace rondo::test {

inline constexpr Collective kEveryCollective[] = {
    Collective::kAllReduce,     Collective::kReduce,   Collective::kBroadcast,
    Collective::kAllGather,     Collective::kGather,   Collective::kScatter,
    Collective::kReduceScatter, Collective::kAllToAll,
};

// This rank's part of a collective, which must equal the reference's.
void run_case(NcclRank& seat, const Case& c, const RankCase::Options& options);

// Every collective in every count, of types in turn; odd alignments, half of them in place.
// mapped: whether a rank's buffers are by ncclMemAlloc in the case of this number.
void run_every_collective(NcclRank& seat, std::initializer_list<std::size_t> counts,
                          std::initializer_list<DataType> types,
                          bool (*mapped)(int rank, int number));

// Sums and the like of every type and operation, `in_turn` of these collectives and of all roots.
void reduce_every_type_and_operation(NcclRank& seat, const std::vector<Collective>& in_turn,
                                     unsigned seed);

// Each rank's message to its right.
void pass_round_a_ring(NcclRank& seat, std::initializer_list<std::size_t> sizes);

// Hundreds of calls on the same buffer, more than a rank may run ahead, on three streams in turn.
void call_on_several_streams(NcclRank& seat);

// Of ranks 0 and 1 in one process and 2 in another: 1 receives from 2 on one stream, late, and
// sends that to 0 on another. 0 launches that copy, on a stream that knows of 1's calls alone.
void pass_on_what_comes_late(NcclRank& seat);

// Sums on the stream that CUDA gives each thread, of values that come late on that stream.
void sum_on_per_thread_streams(NcclRank& seat);

// A sum of ones, each times its rank's factor, which lies in device memory.
void scale_by_factors_on_the_device(NcclRank& seat);

// One graph with calls that differ in nothing but the factor of their sums, replayed: factors from
// the host, among them 0, and one that lies in device memory.
void replay_sums_of_several_factors(NcclRank& seat);

// One capture over two streams that it forks before any call: a sum in place on one, its copy on
// the other; then messages on both. What replays give tells whether they came in that order.
void replay_a_capture_of_two_streams(NcclRank& seat);
void replay_messages_of_two_streams(NcclRank& seat);

// One all-reduce and what became of it; what a rank tells at its end; and all-reduces until an
// error comes, which is told.
ncclResult_t sum_once(NcclRank& seat, DeviceBuffer& buffer, std::size_t count);
void report_and_abort(NcclRank& seat, ncclResult_t result);
void sum_until_error(NcclRank& seat, std::size_t count);

// Every rank but the victim has reported this status, and a text with `part` in it.
void expect_reports(RankProcesses& processes, int ranks, StatusCode status, const std::string& part,
                    int victim = -1);

}  // namespace rondo::test
