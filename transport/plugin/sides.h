// SPDX-License-Identifier: Apache-2.0
// SendSide, ReceiveSide: the two directions of a plugin link.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "transport/net/net.h"
#include "transport/plugin/connection.h"
#include "transport/plugin/plugin_memory.h"

namespace rondo::plugin {

// SendSide: the queued sends of a plugin link.
//
// Guarantees: at most kWindow messages are in flight in the plugin. A request that the plugin does
// not accept is retried at the next progress(), in order. After an error nothing moves. Cost:
// progress() is a few loads with nothing to send, else at least one call of the plugin's test().
class SendSide {
 public:
  explicit SendSide(PluginMemory& memory) : memory_(memory) {}

  // Queues a send, also before open(). Nullopt: kDepth are queued.
  std::optional<net::Request> push(const CallRecord& record, std::span<const std::byte> body,
                                   net::MemoryKey key, std::uint32_t tag);
  // token: that of the peer.
  Status open(std::shared_ptr<Connection> connection, std::uint64_t token);
  bool progress();  // true if something moved
  void close();     // drops queued messages

  std::uint64_t sent() const { return sent_; }
  bool is_empty() const { return sent_ == pushed_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  static constexpr std::uint64_t kDepth = net::Link::kDepth;
  struct Message {
    CallRecord record{};
    std::span<const std::byte> content{};
    net::MemoryKey key = 0;
    std::uint32_t tag = 0;
    Part header{}, body{};
  };
  bool post();
  bool settle();
  bool post_next(Message& message);
  bool submit(Part& part, std::span<const std::byte> bytes, void* memory);
  bool finish(Part& part);

  PluginMemory& memory_;
  std::shared_ptr<Connection> connection_;
  std::unique_ptr<PluginMemory::OfLink> bodies_;
  std::unique_ptr<Headers> headers_;
  std::unique_ptr<Registration> registered_;  // registration of headers_
  std::uint64_t token_ = 0;
  std::array<Message, kDepth> messages_;
  std::uint64_t pushed_ = 0, posted_ = 0, sent_ = 0;
  std::optional<Error> error_;
};

// ReceiveSide: the posted receives of a plugin link.
//
// Guarantees: those of net::Link: messages arrive whole, in order, and only into posted buffers.
// The peer's header is checked before the body counts. GPU memory is flushed. At most kWindow
// messages are in flight in the plugin. After an error nothing moves. Cost: progress() without data
// is one call of the plugin's test().
class ReceiveSide {
 public:
  explicit ReceiveSide(PluginMemory& memory) : memory_(memory) {}

  // Queues a receive, also before open(). Nullopt: kDepth are queued.
  std::optional<net::Request> push(CallRecord& record, std::span<std::byte> room,
                                   const net::Memory* memory, net::MemoryKey key);
  // token: that of this end.
  Status open(std::shared_ptr<Connection> connection, std::uint64_t token);
  bool progress();  // true if a message has arrived
  void close();

  net::Completion test(std::uint64_t number) const;
  std::uint64_t received() const { return received_; }
  bool is_idle() const { return received_ == pushed_; }  // no receive is pending
  // kRemoteError: caused by the peer; kSystemError: reported by the plugin.
  const std::optional<Error>& error() const { return error_; }

 private:
  static constexpr std::uint64_t kDepth = net::Link::kDepth;
  struct Message {
    CallRecord* record = nullptr;
    std::span<std::byte> room{};
    net::MemoryKey key = 0;
    bool flushes = false;
    Part header{}, body{}, flush{};
    std::uint64_t bytes = 0;
    std::uint32_t tag = 0;
  };
  void post();
  bool post_next(Message& message);
  bool submit(Part& part, std::span<std::byte> room, void* memory);
  bool settle_next(Message& message);
  bool check(const Message& message, const Header& header);
  bool flush(Message& message);
  bool finish(Part& part);

  PluginMemory& memory_;
  std::shared_ptr<Connection> connection_;
  std::unique_ptr<PluginMemory::OfLink> bodies_;
  std::unique_ptr<Headers> headers_;
  std::unique_ptr<Registration> registered_;  // registration of headers_
  std::uint64_t token_ = 0;
  std::array<Message, kDepth> messages_;
  std::uint64_t pushed_ = 0, posted_ = 0, received_ = 0;
  std::optional<Error> error_;
};

}  // namespace rondo::plugin
