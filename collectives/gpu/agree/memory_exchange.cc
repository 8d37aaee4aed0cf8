// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/agree/memory_exchange.h"

#include <algorithm>
#include <cassert>
#include <chrono>

namespace rondo::gpu {

MemoryExchange::MemoryExchange(ControlSegment& segment, int process, std::vector<int> process_of,
                               std::vector<ProcessSockets> sockets)
    : segment_(segment),
      process_(process),
      process_of_(std::move(process_of)),
      sockets_(std::move(sockets)),
      open_(sockets_.size()) {}

Result<MemoryExchange::Reply> MemoryExchange::ask(int process, const Question& question,
                                                  const MemoryHandle& with,
                                                  const net::Deadline& deadline) {
  assert(process != process_ && static_cast<std::size_t>(process) < sockets_.size());
  std::lock_guard lock(mutex_);
  const auto rank =
      std::find(process_of_.begin(), process_of_.end(), process) - process_of_.begin();
  net::Socket& socket = sockets_[process].own;
  if (!socket)
    return fail(StatusCode::kRemoteError,
                "rank {} did not answer when it was asked for memory to share before", rank);
  MemoryNote& note = segment_.question(process_, process);
  note.kind = question.kind;
  note.what = question.what;
  note.address = question.address;
  note.handle = with.plain;
  const Status sent = send_files(socket.get(), {&with}, deadline);
  auto received = sent.ok() ? receive_handles(socket.get(), {&note.handle}, deadline)
                            : Result<std::vector<MemoryHandle>>(sent.error());
  if (!received.ok()) socket.reset();  // a late answer would be taken for that to the next question
  if (received.code() == StatusCode::kRemoteError)
    return fail(StatusCode::kRemoteError,
                "rank {} ended; its process keeps memory through which ranks on GPUs share data",
                rank);
  if (received.code() == StatusCode::kTimeout)
    return fail(StatusCode::kTimeout,
                "rank {} did not answer when asked for memory to share; is its process stopped?",
                rank);
  RONDO_TRY(std::vector<MemoryHandle> reply, std::move(received));
  if (note.status != 0) return fail(static_cast<StatusCode>(note.status), "{}", note.text);
  return Reply{std::move(reply[0]), note.address};
}

void MemoryExchange::close() {
  for (ProcessSockets& sockets : sockets_) sockets.theirs.reset();
}

void MemoryExchange::serve(int process, const Answer& answer) {
  constexpr auto kBriefly = std::chrono::seconds(5);  // the asker waits for the answer
  const net::Deadline deadline = net::Deadline::of(kBriefly);
  net::Socket& socket = sockets_[process].theirs;
  assert(process != process_ && static_cast<std::size_t>(process) < sockets_.size());
  MemoryNote& note = segment_.question(process, process_);
  std::optional<MemoryHandle>& with = open_[process];
  if (!with) {
    auto question = receive_handles(socket.get(), {&note.handle}, deadline);
    if (!question.ok()) return socket.reset();  // its process left, perhaps without notice
    with = std::move(question->front());
  }
  const auto result = answer(note, *with);
  if (!result) return;
  with.reset();
  note.put(*result);
  const MemoryHandle none;
  const MemoryHandle& given = result->ok() ? **result : none;
  note.handle = given.plain;
  if (!send_files(socket.get(), {&given}, deadline).ok()) socket.reset();
}

}  // namespace rondo::gpu
