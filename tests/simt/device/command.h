// Command, Operation, Stream, Event, Capture, Graph: what streams are made of.
//
// An Operation is what a call asks for; it becomes a Command each time that it is put on a hardware
// queue: at once, or at every launch of the graph that captured it. All of them are guarded by the
// platform's mutex, but for Command::over and what the engine alone runs (step).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace rondo::simt {

enum class Step { kOver, kMoved, kWaits };  // done; come again, it goes on; come again, nothing new

struct Command : std::enable_shared_from_this<Command> {
  const char* what = "nothing";
  int device = 0;
  int queue = 0;
  bool is_node = false;                         // of a launched graph
  std::uint64_t stream = 0;                     // its number
  std::uint64_t number = 0;                     // of the command, in order
  std::vector<std::shared_ptr<Command>> after;  // must be over before it begins
  std::function<Step()> step;                   // by the engine; null: nothing to do
  std::atomic<bool> over{false};
  std::uint64_t over_at = 0;  // ns; of event records
};
using CommandRef = std::shared_ptr<Command>;

struct Operation {
  const char* what;
  int device;
  std::function<void(Command&)> prepare;  // gives a fresh command its step and what it comes after
  const void* records = nullptr;          // the event that it records, if it does
};

struct Capture;

struct Stream {
  int device;
  int queue;
  int priority;
  bool waits_for_legacy;  // a blocking stream
  CommandRef newest;
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> frontier;  // nodes of the capture that the next one comes after
  std::uint64_t number = 0;           // of the order in which they were made; 0: the legacy one
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
  std::vector<Stream*> streams;  // that have joined, the origin first
  Graph graph;
};

struct Event {
  bool timing;
  int device;
  CommandRef recorded;  // the newest record's; null: never
  // Where the newest record was captured.
  std::weak_ptr<Capture> capture;
  bool captured = false;
  std::vector<std::size_t> frontier;
};

}  // namespace rondo::simt
