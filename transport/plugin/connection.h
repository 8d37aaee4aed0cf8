// SPDX-License-Identifier: Apache-2.0
// Context, Connection, Listener, Registration: owners of objects that a plugin's functions make.
// Their destructors close the objects.
//
// Guarantees: memory is deregistered before its connection closes. An error from a close is only
// logged, because no action is possible. Single-threaded.
//
//   RONDO_TRY(auto memory, Registration::make(connection, {.bytes = ring}));
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "base/types.h"
#include "transport/net/net.h"
#include "transport/plugin/abi.h"
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

// The blob that each end of a plugin's link sends on the side channel.
//
//   channels->connect(name, address, serialize({token, handle}));
//   RONDO_TRY(const Greeting theirs, parse_greeting(channel->blob()));
struct Greeting {
  std::uint64_t token = 0;  // carried by messages to this end; unknown to strangers
  // The address of this end's listener. The plugin's connect() may keep state in it.
  alignas(16) std::array<std::byte, abi::kHandleBytes> handle{};
  friend bool operator==(const Greeting&, const Greeting&) = default;
};

Bytes serialize(const Greeting& greeting);
// kRemoteError for bytes that serialize() would not write.
Result<Greeting> parse_greeting(ByteSpan blob);

// The messages on a plugin's connection. Each message of a link is a header, then its body, each
// sent as one message of the plugin, also for an empty body. So both ends post them in the same
// order.
struct Header {
  std::uint64_t token;  // Greeting::token of the receiver
  std::uint64_t number;
  std::uint64_t bytes;  // size of the body
  std::uint32_t tag;
  std::uint32_t unused;
  CallRecord record;
};
static_assert(sizeof(Header) == 48);

// Max messages in flight per direction. Each takes two requests; one more is for the flush.
inline constexpr std::uint64_t kWindow = (abi::kMaxRequests - 1) / 2;
using Headers = std::array<Header, kWindow>;

// One request of the plugin.
struct Part {
  void* request = nullptr;
  bool is_done = false;
  int bytes = -1;  // once done: size reported by the plugin; -1: not reported

  bool is_posted() const { return is_done || request != nullptr; }
};

}  // namespace rondo::plugin
