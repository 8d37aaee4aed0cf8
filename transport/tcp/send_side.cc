#include "transport/tcp/send_side.h"

#include <algorithm>

namespace rondo::tcp {

std::uint64_t SendSide::push(const CallRecord& record, std::span<const std::byte> body,
                             std::uint32_t tag) {
  Outgoing& message = at(pushed_);
  message.header.bytes = static_cast<std::uint32_t>(body.size());
  message.header.number = static_cast<std::uint32_t>(pushed_);
  message.header.tag = tag;
  message.header.record = record;
  message.body = body.data();
  return pushed_++;
}

bool SendSide::progress(Streams streams) {
  if (sent_ == pushed_ || failure_) return false;
  cursors_.resize(streams.size());
  const int sockets = static_cast<int>(streams.size());
  bool moved = false;
  for (int i = 0; i < sockets; ++i) moved |= advance(i, *streams[i], sockets);
  sent_ = pushed_;
  for (const Cursor& cursor : cursors_) sent_ = std::min(sent_, cursor.message);
  return moved;
}

// The bytes of a message that a socket sends; for socket 0 including the header, before the body.
Part SendSide::share(std::uint64_t message, int index, int sockets) {
  Part part = part_of_body(at(message).header.bytes, index, sockets);
  if (index == 0) part.bytes += kHeaderBytes;
  return part;
}

std::size_t SendSide::gather(const Cursor& from, int index, int sockets, std::span<iovec> parts) {
  std::size_t count = 0;
  const auto add = [&](const void* begin, std::uint64_t bytes) {
    if (bytes != 0) parts[count++] = {const_cast<void*>(begin), bytes};
  };
  std::uint64_t offset = from.offset;
  for (auto m = from.message; m < pushed_ && count + 2 <= parts.size(); ++m, offset = 0) {
    Outgoing& message = at(m);
    const Part body = part_of_body(message.header.bytes, index, sockets);
    if (index == 0 && offset < kHeaderBytes) {
      add(reinterpret_cast<const std::byte*>(&message.header) + offset, kHeaderBytes - offset);
      offset = kHeaderBytes;
    }
    const std::uint64_t skip = index == 0 ? offset - kHeaderBytes : offset;
    add(message.body + body.begin + skip, body.bytes - skip);
  }
  return count;
}

bool SendSide::advance(int index, net::Stream& stream, int sockets) {
  Cursor& cursor = cursors_[index];
  bool moved = false;
  for (;;) {
    while (cursor.message < pushed_ && share(cursor.message, index, sockets).bytes == 0)
      ++cursor.message;
    if (cursor.message == pushed_ || !stream.writable()) return moved;
    std::array<iovec, net::Stream::kMaxParts> parts;
    const std::size_t count = gather(cursor, index, sockets, parts);
    const net::IoOutcome outcome = stream.write(std::span(parts).first(count));
    if (outcome.over()) {
      failure_ = outcome;
      return moved;
    }
    if (outcome.bytes == 0) return moved;
    moved = true;
    for (std::uint64_t left = outcome.bytes; left > 0;) {
      const std::uint64_t rest = share(cursor.message, index, sockets).bytes - cursor.offset;
      if (left < rest) {
        cursor.offset += left;
        break;
      }
      left -= rest;
      ++cursor.message;
      cursor.offset = 0;
    }
  }
}

}  // namespace rondo::tcp
