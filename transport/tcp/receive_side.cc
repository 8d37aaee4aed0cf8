#include "transport/tcp/receive_side.h"

#include <algorithm>
#include <cstring>

namespace rondo::tcp {

std::uint64_t ReceiveSide::push(CallRecord& record, std::span<std::byte> room) {
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
  const Incoming& message = at(cursor.message);
  const Part part = part_of_body(message.bytes, index, sockets);
  return {message.room + part.begin + cursor.offset, part.bytes - cursor.offset};
}

void ReceiveSide::take_header() {
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
