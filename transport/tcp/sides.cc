// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/sides.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace rondo::tcp {
namespace {

constexpr std::uint64_t kGrain = 4096;  // page-aligned parts, for the copies on both sides

}  // namespace

std::optional<MessageHeader> parse_header(std::span<const std::byte, kHeaderBytes> bytes,
                                          std::uint64_t number) {
  MessageHeader header;
  std::memcpy(&header, bytes.data(), kHeaderBytes);
  if (header.magic != MessageHeader::kMagic || header.number != static_cast<std::uint32_t>(number))
    return std::nullopt;
  return header;
}

Part part_of_body(std::uint64_t bytes, int index, int sockets) {
  assert(index >= 0 && index < sockets);
  if (bytes < kStripedFrom || sockets == 1) return {0, index == 0 ? bytes : 0};
  const auto count = static_cast<std::uint64_t>(sockets);
  const std::uint64_t share = ((bytes + count - 1) / count + kGrain - 1) / kGrain * kGrain;
  const std::uint64_t begin = std::min(bytes, share * static_cast<std::uint64_t>(index));
  return {begin, std::min(bytes - begin, share)};
}

std::uint64_t SendSide::push(const CallRecord& record, std::span<const std::byte> body,
                             std::uint32_t tag) {
  assert(body.size() >> 32 == 0 && "a header has 32 bits for the size");
  assert(pushed_ - sent_ < net::Link::kDepth);
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
  assert(parts.size() >= 2 && from.message < pushed_);
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

std::uint64_t ReceiveSide::push(CallRecord& record, std::span<std::byte> room) {
  assert(posted_ - received_ < net::Link::kDepth);
  at(posted_) = {&record, room.data(), room.size(), 0, 0};
  return posted_++;
}

bool ReceiveSide::progress(Streams streams) {
  if (received_ == posted_ || failure_) return false;
  cursors_.resize(streams.size());
  const int sockets = static_cast<int>(streams.size());
  bool moved = advance_first(*streams[0], sockets);
  for (int i = 1; i < sockets && headers_ != received_; ++i)
    moved |= advance_other(i, *streams[i], sockets);
  received_ = headers_;
  for (const Cursor& cursor : cursors_) received_ = std::min(received_, cursor.message);
  if (end_ && received_ == headers_ && !failure_) failure_ = end_;
  return moved;
}

std::span<std::byte> ReceiveSide::rest_of_part(const Cursor& cursor, int index, int sockets) {
  assert(cursor.message < headers_);
  const Incoming& message = at(cursor.message);
  const Part part = part_of_body(message.bytes, index, sockets);
  return {message.room + part.begin + cursor.offset, part.bytes - cursor.offset};
}

void ReceiveSide::take_header() {
  assert(headers_ < posted_ && stage_end_ - stage_begin_ >= kHeaderBytes);
  const auto header = parse_header(
      std::span<const std::byte, kHeaderBytes>(&stage_[stage_begin_], kHeaderBytes), headers_);
  stage_begin_ += kHeaderBytes;
  Incoming& message = at(headers_);
  if (!header) {
    failure_ = fmt::format("it sent an invalid slot {}", headers_);
  } else if (header->bytes > message.capacity) {
    failure_ =
        fmt::format("it sent {} bytes in slot {}, where at most {} fit: does NCCL_BUFFSIZE differ?",
                    header->bytes, headers_, message.capacity);
  } else {
    message.bytes = header->bytes;
    message.tag = header->tag;
    *message.record = header->record;
    ++headers_;
  }
}

// Copies staged bytes to `into`; true if that filled it.
bool ReceiveSide::take_staged(std::span<std::byte> into) {
  const std::size_t count = std::min(into.size(), stage_end_ - stage_begin_);
  if (count != 0) std::memcpy(into.data(), stage_.data() + stage_begin_, count);
  stage_begin_ += count;
  cursors_[0].offset += count;
  return count == into.size();
}

void ReceiveSide::fail_at(const net::IoOutcome& outcome, bool in_message) {
  if (in_message) {
    failure_ =
        fmt::format("{} in the middle of slot {}", net::text_of(outcome), cursors_[0].message);
  } else if (outcome.end) {
    end_ = net::text_of(outcome);
  } else {
    failure_ = net::text_of(outcome);
  }
}

bool ReceiveSide::advance_first(net::Stream& stream, int sockets) {
  Cursor& cursor = cursors_[0];
  bool moved = false;
  while (!failure_ && !end_) {
    const bool in_body = cursor.message < headers_;
    std::span<std::byte> rest;
    if (in_body) {
      rest = rest_of_part(cursor, 0, sockets);
      if (take_staged(rest)) {
        cursor = {cursor.message + 1, 0};
        moved = true;
        continue;
      }
      rest = rest_of_part(cursor, 0, sockets);
      stage_begin_ = stage_end_ = 0;  // empty: the body needs more bytes
    } else if (headers_ == posted_) {
      break;
    } else if (stage_end_ - stage_begin_ >= kHeaderBytes) {
      take_header();
      moved = true;
      continue;
    } else {
      std::copy(stage_.data() + stage_begin_, stage_.data() + stage_end_, stage_.data());
      stage_end_ -= stage_begin_;
      stage_begin_ = 0;
    }
    if (!stream.readable()) break;
    iovec parts[2] = {{rest.data(), rest.size()},
                      {stage_.data() + stage_end_, kStageBytes - stage_end_}};
    const net::IoOutcome outcome =
        stream.read(in_body ? std::span<iovec>(parts) : std::span<iovec>(parts).subspan(1));
    if (outcome.over()) {
      fail_at(outcome, in_body || stage_end_ != 0);
      break;
    }
    if (outcome.bytes == 0) break;
    moved = true;
    const std::size_t direct = std::min(outcome.bytes, rest.size());
    cursor.offset += direct;
    stage_end_ += outcome.bytes - direct;
  }
  return moved;
}

bool ReceiveSide::advance_other(int index, net::Stream& stream, int sockets) {
  Cursor& cursor = cursors_[index];
  bool moved = false;
  while (!failure_ && cursor.message < headers_) {
    const std::span<std::byte> rest = rest_of_part(cursor, index, sockets);
    if (rest.empty()) {
      cursor = {cursor.message + 1, 0};
      continue;
    }
    if (!stream.readable()) break;
    iovec part{rest.data(), rest.size()};
    const net::IoOutcome outcome = stream.read({&part, 1});
    if (outcome.over()) {
      fail_at(outcome, true);
      break;
    }
    if (outcome.bytes == 0) break;
    moved = true;
    cursor.offset += outcome.bytes;
  }
  return moved;
}

}  // namespace rondo::tcp
