// SPDX-License-Identifier: Apache-2.0
// Bodies of ranks in processes that several tests share, for any placement of GPUs.
#pragma once

#include <functional>
#include <initializer_list>

#include "tests/gpu/device_case.h"

namespace rondo::test {

inline constexpr Collective kEveryCollective[] = {
    Collective::kAllReduce,     Collective::kReduce,   Collective::kBroadcast,
    Collective::kAllGather,     Collective::kGather,   Collective::kScatter,
    Collective::kReduceScatter, Collective::kAllToAll,
};

// Runs this rank's part of a collective and compares it with the reference.
void run_case(NcclRank& seat, const Case& c, const RankCase::Options& options);

// Every collective with every count, types in turn; odd alignments, half of them in place. mapped:
// true if a rank's buffers are from ncclMemAlloc in the case of this number.
void run_every_collective(NcclRank& seat, std::initializer_list<std::size_t> counts,
                          std::initializer_list<DataType> types,
                          bool (*mapped)(int rank, int number));

// Reductions of every type and operation, taking these collectives and all roots in turn.
void reduce_every_type_and_operation(NcclRank& seat, const std::vector<Collective>& in_turn,
                                     unsigned seed);

// Each rank sends a message to the next one.
void pass_round_a_ring(NcclRank& seat, std::initializer_list<std::size_t> sizes);

// Hundreds of calls on the same buffer, more than a rank may queue ahead, on three streams in turn.
void call_on_several_streams(NcclRank& seat);

// For ranks 0 and 1 in one process and 2 in another: 1 receives from 2 on one stream, late, and
// sends the data to 0 on another. 0 launches that copy on a stream that is ordered only after 1's
// calls.
void pass_on_what_comes_late(NcclRank& seat);

// Sums on CUDA's per-thread stream of values that are written late on that stream.
void sum_on_per_thread_streams(NcclRank& seat);

// A sum of ones, each multiplied by its rank's factor in device memory.
void scale_by_factors_on_the_device(NcclRank& seat);

// Replays one graph with calls that differ only in the factor of their sums: factors from the host,
// among them 0, and one in device memory.
void replay_sums_of_several_factors(NcclRank& seat);

// One capture over two streams, forked before any call: a sum in place on one, a copy of it on the
// other; then messages on both. Replayed results show whether the calls kept that order.
void replay_a_capture_of_two_streams(NcclRank& seat);
void replay_messages_of_two_streams(NcclRank& seat);

// One all-reduce and its result; a rank's final report; all-reduces until an error, reported.
ncclResult_t sum_once(NcclRank& seat, DeviceBuffer& buffer, std::size_t count);
void report_and_abort(NcclRank& seat, ncclResult_t result);
void sum_until_error(NcclRank& seat, std::size_t count);
// Makes the call on both of two ranks. Then rank 0 alone makes it until one ends by a timeout of a
// second, whose error must name rank 1. Returns how many rank 0 made; of rank 1, 0.
int calls_until_timeout(NcclRank& seat, const std::function<ncclResult_t()>& call);
// "" if all but `late` report a timeout with this part in its text. For with_enough_time().
std::string differs_from_timeout(const RankProcesses& processes, int late, const std::string& part);

// Every rank but the victim has reported this status, with a text that contains `part`.
void expect_reports(RankProcesses& processes, int ranks, StatusCode status, const std::string& part,
                    int victim = -1);

}  // namespace rondo::test
