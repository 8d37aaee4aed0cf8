// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/stages.h"

#include <fmt/format.h>
#include <unistd.h>

namespace rondo::test {
namespace {

// Seconds to wait for a message: with a fault, its sender may have failed; else it comes.
constexpr double kPatience = 120, kPatienceWithFault = 8;

}  // namespace

OnThreads::OnThreads(std::size_t count, std::function<void(std::size_t)> body)
    : body_(std::move(body)) {
  for (std::size_t i = 0; i < count; ++i)
    threads_.emplace_back([this, i] {
      while (!open_.load()) usleep(100);
      body_(i);
      ++done_;
      while (!leave_.load()) usleep(100);
    });
}

void OnThreads::go() {
  open_.store(true);
  while (done_.load() < threads_.size()) usleep(100);
  leave_.store(true);
  for (std::thread& thread : threads_) thread.join();
}

double Rank::patience() const { return has_fault ? kPatienceWithFault : kPatience; }

bool Rank::run(Stage stage, Meeting& meeting) {
  switch (stage) {
    case Stage::kInit:
      return init(meeting);
    case Stage::kCall:
      return call(comm_);
    case Stage::kStream:
      return stream();
    case Stage::kMessage:
      return message();
    case Stage::kSplit:
      return split();
    case Stage::kDestroy:
      return destroy();
    case Stage::kCount:
      break;
  }
  return false;
}

void Rank::finish() {
  for (rondoRequest_t request : requests_) {
    if (rondoRequestTest(request) == ncclInProgress) (void)rondoRequestCancel(request, 0);
    (void)rondoRequestFree(request);
  }
  requests_.clear();
  if (comm_ != nullptr) (void)ncclCommAbort(comm_);
  comm_ = nullptr;
  error.clear();
}

bool Rank::succeeded(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return true;
  if (error.empty())
    error = fmt::format("rank {}: {} says {}: {}", rank_, what, static_cast<int>(result),
                        ncclGetLastError(nullptr));
  return false;
}

bool Rank::init(Meeting& meeting) {
  if (rank_ == 0) {
    const bool made = succeeded(ncclGetUniqueId(&meeting.ticket), "ncclGetUniqueId");
    meeting.state.store(made ? 1 : 2);
  }
  while (meeting.state.load() == 0) usleep(200);
  if (meeting.state.load() == 2) return false;
  return succeeded(ncclCommInitRank(&comm_, size_, meeting.ticket, rank_), "ncclCommInitRank");
}

bool Rank::sums(ncclComm_t comm, std::size_t count, cudaStream_t stream) {
  return succeeded(ncclAllReduce(in_.data(), out_.data(), count, ncclFloat, ncclSum, comm, stream),
                   "ncclAllReduce");
}

bool Rank::call(ncclComm_t comm) {
  if (!sums(comm, 1, nullptr) || !sums(comm, kMaxFloats, nullptr)) return false;
  const int peer = 1 - rank_;
  constexpr std::size_t kCount = 20'000;
  ncclGroupStart();
  ncclSend(in_.data(), kCount, ncclFloat, peer, comm, nullptr);
  ncclRecv(out_.data(), kCount, ncclFloat, peer, comm, nullptr);
  if (!succeeded(ncclGroupEnd(), "ncclSend and ncclRecv")) return false;
  ncclGroupStart();
  for (int i = 0; i < 3; ++i)
    ncclAllReduce(in_.data(), out_.data(), 100, ncclFloat, ncclMax, comm, nullptr);
  if (!succeeded(ncclGroupEnd(), "a group of ncclAllReduce")) return false;
  const std::size_t counts[] = {3, 5}, at[] = {0, 3};
  if (!succeeded(rondoAllGatherv(in_.data(), counts[rank_], out_.data(), counts, at, ncclFloat,
                                 comm, nullptr),
                 "rondoAllGatherv"))
    return false;
  void* memory = nullptr;
  if (!succeeded(ncclMemAlloc(&memory, 1 << 20), "ncclMemAlloc")) return false;
  const bool done = succeeded(ncclBroadcast(memory, memory, 1 << 18, ncclFloat, 0, comm, nullptr),
                              "ncclBroadcast");
  return succeeded(ncclMemFree(memory), "ncclMemFree") && done;
}

bool Rank::stream() {
  rondoStream_t stream = nullptr;
  if (!succeeded(rondoStreamCreate(&stream), "rondoStreamCreate")) return false;
  rondoRequest_t recorded = nullptr;
  bool done = sums(comm_, 1000, rondoStreamHandle(stream)) &&
              succeeded(rondoStreamRecord(stream, &recorded), "rondoStreamRecord");
  if (recorded != nullptr) {
    requests_.push_back(recorded);
    done = done && succeeded(rondoRequestWait(recorded, patience()), "rondoRequestWait");
  }
  done = succeeded(rondoStreamSynchronize(stream), "rondoStreamSynchronize") && done;
  return succeeded(rondoStreamDestroy(stream), "rondoStreamDestroy") && done;
}

bool Rank::message() {
  if (!succeeded(rondoCommOpenMessages(comm_), "rondoCommOpenMessages")) return false;
  const int peer = 1 - rank_;
  bool done = true;
  for (const std::size_t count : {std::size_t{10}, std::size_t{10'000}, kMaxFloats}) {
    rondoRequest_t request = nullptr;
    done = done && succeeded(rondoIsend(in_.data(), count, ncclFloat, peer, 7, comm_, &request),
                             "rondoIsend");
    if (request != nullptr) requests_.push_back(request);
    request = nullptr;
    done = done && succeeded(rondoIrecv(out_.data(), count, ncclFloat, peer, 7, comm_, &request),
                             "rondoIrecv");
    if (request != nullptr) requests_.push_back(request);
    if (!done) return false;
    for (rondoRequest_t each : requests_)
      done = done && succeeded(rondoRequestWait(each, patience()), "rondoRequestWait");
  }
  return done;
}

bool Rank::split() {
  ncclComm_t child = nullptr;
  if (!succeeded(ncclCommSplit(comm_, 0, rank_, &child, nullptr), "ncclCommSplit")) return false;
  const bool done = sums(child, 100, nullptr);
  return succeeded(ncclCommDestroy(child), "ncclCommDestroy of a child") && done;
}

bool Rank::destroy() {
  const bool done = succeeded(ncclCommDestroy(comm_), "ncclCommDestroy");
  if (done) comm_ = nullptr;
  return done;
}

}  // namespace rondo::test
