// SPDX-License-Identifier: Apache-2.0
// Command, Operation, Stream, Event, Capture, Graph: the parts of streams.
//
// An Operation is what a call requests. It becomes a Command each time it is put on a hardware
// queue: at once, or at every launch of the graph that captured it. The platform's mutex guards all
// of them, except Command::over and the fields that only the engine runs (step).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace rondo::simt {

enum class Step { kOver, kMoved, kWaits };  // finished; made progress; made none

struct Command : std::enable_shared_from_this<Command> {
  const char* what = "nothing";
  int device = 0;
  int queue = 0;
  bool is_node = false;                         // of a launched graph
  std::uint64_t stream = 0;                     // stream number
  std::uint64_t number = 0;                     // command number, in call order
  std::vector<std::shared_ptr<Command>> after;  // commands that must finish before it begins
  std::function<Step()> step;                   // run by the engine; null: nothing to do
  std::atomic<bool> over{false};
  std::uint64_t over_at = 0;  // ns; event records only
};
using CommandRef = std::shared_ptr<Command>;

struct Operation {
  const char* what;
  int device;
  std::function<void(Command&)> prepare;  // gives a new command its step and dependencies
  const void* records = nullptr;          // the event that it records, or null
};

struct Capture;

struct Stream {
  int device;
  int queue;
  int priority;
  bool waits_for_legacy;  // a blocking stream
  CommandRef newest;
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> frontier;  // nodes on which the next node depends
  std::uint64_t number = 0;           // in creation order; 0: the legacy stream
};

struct Graph {
  struct Node {
    Operation operation;
    std::vector<std::size_t> after;
  };
  std::vector<Node> nodes;
  CommandRef newest_run;
};

struct Capture {
  std::uint64_t id;
  int mode;  // CUDA's: 0 global, 1 thread-local, 2 relaxed
  std::uint64_t thread;
  bool invalidated = false;
  Stream* origin;
  std::vector<Stream*> streams;  // streams in the capture, the origin first
  Graph graph;
};

struct Event {
  bool timing;
  int device;
  CommandRef recorded;  // the newest record's command; null: never recorded
  // Capture of the newest record.
  std::weak_ptr<Capture> capture;
  bool captured = false;
  std::vector<std::size_t> frontier;
};

}  // namespace rondo::simt
