// SPDX-License-Identifier: Apache-2.0
#include "transport/plugin/connection.h"

#include "base/log.h"

namespace rondo::plugin {
namespace {

void report_failure(const Plugin& plugin, const char* function, int result) {
  if (result != 0) RONDO_INFO(kNet, "{}", plugin.failure(function, result).text);
}

}  // namespace

Result<std::unique_ptr<Context>> Context::open(const Plugin& plugin, std::uint64_t communicator) {
  RONDO_TRY(void* const context, plugin.init(communicator));
  return std::unique_ptr<Context>(new Context(plugin, context));
}

Connection::~Connection() {
  if (kind_ == Kind::kSend) {
    report_failure(plugin_, "closeSend", plugin_.table().close_send(connection_));
  } else {
    report_failure(plugin_, "closeRecv", plugin_.table().close_receive(connection_));
  }
}

Listener::~Listener() {
  report_failure(plugin_, "closeListen", plugin_.table().close_listen(listener_));
}

Result<std::unique_ptr<Registration>> Registration::make(std::shared_ptr<Connection> connection,
                                                         const net::Memory& memory) {
  const Plugin& plugin = connection->plugin();
  void* registered = nullptr;
  const int kind = memory.kind == net::Memory::Kind::kHost ? abi::kHost : abi::kCuda;
  const bool dmabuf = memory.kind == net::Memory::Kind::kDmabuf;
  const int result = dmabuf
                         ? plugin.table().register_dmabuf(connection->get(), memory.bytes.data(),
                                                          memory.bytes.size(), kind, memory.offset,
                                                          memory.dmabuf, &registered)
                         : plugin.table().register_memory(connection->get(), memory.bytes.data(),
                                                          memory.bytes.size(), kind, &registered);
  if (result != 0) {
    Error error = plugin.failure(dmabuf ? "regMrDmaBuf" : "regMr", result);
    error.text += fmt::format(", of {} bytes; see `ulimit -l`", memory.bytes.size());
    return error;
  }
  return std::unique_ptr<Registration>(new Registration(std::move(connection), registered));
}

Registration::~Registration() {
  const Plugin& plugin = connection_->plugin();
  report_failure(plugin, "deregMr", plugin.table().deregister_memory(connection_->get(), memory_));
}

namespace {

constexpr std::uint32_t kGreetingMagic = 0x31474c50;  // "PLG1"

}  // namespace

Bytes serialize(const Greeting& greeting) {
  ByteWriter out;
  out.put(kGreetingMagic);
  out.put(greeting.token);
  out.put_raw(greeting.handle);
  return out.take();
}

Result<Greeting> parse_greeting(ByteSpan blob) {
  ByteReader in(blob);
  Greeting greeting;
  const auto magic = in.get<std::uint32_t>();
  greeting.token = in.get<std::uint64_t>();
  in.fill(greeting.handle);
  if (!in.finished() || magic != kGreetingMagic)
    return fail(StatusCode::kRemoteError, "its greeting does not belong to this network");
  return greeting;
}

}  // namespace rondo::plugin
