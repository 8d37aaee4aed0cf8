// SPDX-License-Identifier: Apache-2.0
// MemoryExchange: requests between processes of a host for each other's memory, and the answers.
//
// A process asks the owner of the memory. The owner's watch thread answers, so an answer never
// depends on what the owner's program does. Plain data goes through the control segment, files
// through Unix sockets. Guarantees: a process has one request at a time and can be asked meanwhile;
// every request ends with its deadline; a process that did not answer is not asked again. Cost: a
// round trip between processes, once per block.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/gpu/agree/control_segment.h"
#include "collectives/gpu/agree/process_meeting.h"

namespace rondo::gpu {

class MemoryExchange {
 public:
  using Question = MemoryNote::Question;
  struct Reply {
    MemoryHandle handle;
    std::uint64_t address = 0;
  };

  // process_of: by rank.
  MemoryExchange(ControlSegment& segment, int process, std::vector<int> process_of,
                 std::vector<ProcessSockets> sockets);

  Result<Reply> ask(int process, const Question& question, const MemoryHandle& with,
                    const net::Deadline& deadline);

  // For the watch thread. fd(): where requests of a process arrive (-1: nowhere). serve(): answers
  // one; `answer` may set the note's address. nullopt: not yet; while has_open_request(), call
  // serve() again now and then.
  using Answer = std::function<std::optional<Result<MemoryHandle>>(MemoryNote& asked,
                                                                   const MemoryHandle& with)>;
  int fd(int process) const { return sockets_[process].theirs.get(); }
  bool has_open_request(int process) const { return open_[process].has_value(); }
  void serve(int process, const Answer& answer);
  // Nothing is answered any more, so requests fail at once. Call once the watch thread has stopped.
  void close();

 private:
  ControlSegment& segment_;
  const int process_;
  const std::vector<int> process_of_;
  std::mutex mutex_;  // one question at a time
  std::vector<ProcessSockets> sockets_;
  std::vector<std::optional<MemoryHandle>> open_;  // by process: came with the request
};

}  // namespace rondo::gpu
