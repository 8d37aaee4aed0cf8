// Context, Connection, Listener, Registration: owners of objects that a plugin's functions make.
// Their destructors close the objects.
//
// Guarantees: memory is deregistered before its connection closes. An error from a close is only
// logged, because no action is possible. Single-threaded.
//
//   RONDO_TRY(auto memory, Registration::make(connection, {.bytes = ring}));
#pragma once

#include <memory>

#include "base/result.h"
#include "transport/net/net.h"
#include "transport/plugin/plugin.h"

namespace rondo::plugin {

// The plugin's context of one communicator.
class Context {
 public:
  static Result<std::unique_ptr<Context>> open(const Plugin& plugin, std::uint64_t communicator);
  ~Context() { plugin_.finalize(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  void* get() const { return context_; }

 private:
  Context(const Plugin& plugin, void* context) : plugin_(plugin), context_(context) {}
  const Plugin& plugin_;
  void* const context_;
};

// One direction between two ranks.
class Connection {
 public:
  enum class Kind { kSend, kReceive };
  Connection(const Plugin& plugin, void* connection, Kind kind)
      : plugin_(plugin), connection_(connection), kind_(kind) {}
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const Plugin& plugin() const { return plugin_; }
  void* get() const { return connection_; }

 private:
  const Plugin& plugin_;
  void* const connection_;
  const Kind kind_;
};

class Listener {
 public:
  Listener(const Plugin& plugin, void* listener) : plugin_(plugin), listener_(listener) {}
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  void* get() const { return listener_; }

 private:
  const Plugin& plugin_;
  void* const listener_;
};

// Memory registered with a connection. It keeps the connection open.
class Registration {
 public:
  static Result<std::unique_ptr<Registration>> make(std::shared_ptr<Connection> connection,
                                                    const net::Memory& memory);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  void* get() const { return memory_; }

 private:
  Registration(std::shared_ptr<Connection> connection, void* memory)
      : connection_(std::move(connection)), memory_(memory) {}
  const std::shared_ptr<Connection> connection_;
  void* const memory_;
};

}  // namespace rondo::plugin
