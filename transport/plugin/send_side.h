// SendSide: the queued sends of a plugin link.
//
// Guarantees: at most kWindow messages are in flight in the plugin. A request that the plugin does
// not accept is retried at the next progress(), in order. After an error nothing moves. Cost:
// progress() is a few loads with nothing to send, else at least one call of the plugin's test().
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "transport/net/net.h"
#include "transport/plugin/message.h"
#include "transport/plugin/plugin_memory.h"

namespace rondo::plugin {

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

}  // namespace rondo::plugin
