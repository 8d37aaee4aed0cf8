// SPDX-License-Identifier: Apache-2.0
#include "transport/streams/side_channel.h"

#include <algorithm>

#include "base/log.h"

namespace rondo::net {
namespace {

bool always(int) { return true; }

}  // namespace

SideChannel::SideChannel(const LinkName& name, const Vigilance& vigilance,
                         std::unique_ptr<Connector> connector, bool farewells)
    : name_(name),
      vigilance_(vigilance),
      connector_(std::move(connector)),
      accepted_(false),
      received_(kHeader),
      farewell_(farewells ? sizeof(std::uint64_t) : 0) {}

SideChannel::SideChannel(const LinkName& name, const Vigilance& vigilance, std::string from,
                         std::unique_ptr<Stream> stream, bool farewells)
    : name_(name),
      vigilance_(vigilance),
      address_(std::move(from)),
      stream_(std::move(stream)),
      proven_at_(std::chrono::steady_clock::now()),
      accepted_(true),
      received_(kHeader),
      farewell_(farewells ? sizeof(std::uint64_t) : 0) {
  watch(*stream_, vigilance_, true);
}

Bytes SideChannel::frame(ByteSpan blob) {
  ByteWriter out;
  out.put_bytes(blob);
  return out.take();
}

bool SideChannel::answer(ByteSpan blob) {
  if (blob.size() > kMaxBlob) return false;
  unsent_ = frame(blob);
  send();
  return true;
}

bool SideChannel::progress() {
  if (state_ >= State::kClosed) return false;
  if (connector_) return connect();
  const bool sent_some = !unsent_.empty() && send();
  if (state_ == State::kOpening) return receive() || sent_some;  // the owner must see it open first
  return (state_ == State::kOpen && listen_for_end()) || sent_some;
}

bool SideChannel::connect() {
  const bool moved = connector_->progress();
  if (connector_->failure()) {
    end(State::kEnded, fmt::format("cannot reach rank {}: {}", name_.to, *connector_->failure()));
    return true;
  }
  if (!connector_->finished()) return moved;
  address_ = connector_->address();
  stream_ = std::move(connector_->take().front());
  connector_.reset();
  watch(*stream_, vigilance_, true);
  return true;
}

bool SideChannel::send() {
  bool moved = false;
  while (!unsent_.empty() && stream_->writable()) {
    iovec rest{unsent_.data(), unsent_.size()};
    const IoOutcome outcome = stream_->write({&rest, 1});
    if (outcome.over()) {
      end(State::kEnded, text_of(outcome));
      return true;
    }
    if (outcome.bytes == 0) break;
    moved = true;
    unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(outcome.bytes));
  }
  return moved;
}

bool SideChannel::receive() {
  bool moved = false;
  while (stream_->readable()) {
    iovec rest{received_.data() + filled_, received_.size() - filled_};
    const IoOutcome outcome = stream_->read({&rest, 1});
    if (outcome.over()) {
      end(State::kEnded,
          fmt::format("{} before it identified itself on the network", text_of(outcome)));
      return true;
    }
    if (outcome.bytes == 0) break;
    moved = true;
    filled_ += outcome.bytes;
    if (filled_ < received_.size()) continue;
    const std::size_t length = ByteReader(received_).get<std::uint32_t>();
    if (length > kMaxBlob) {
      end(State::kEnded,
          fmt::format("its greeting has {} bytes; at most {} fit", length, kMaxBlob));
      return true;
    }
    received_.resize(kHeader + length);
    if (filled_ < received_.size()) continue;
    state_ = State::kOpen;
    return true;
  }
  if (accepted_ &&
      std::chrono::steady_clock::now() - proven_at_ > std::chrono::seconds(vigilance_.seconds))
    end(State::kEnded,
        fmt::format("it sent no greeting within {} s (RONDO_NET_TIMEOUT)", vigilance_.seconds));
  return moved;
}

// An open channel carries only a farewell.
bool SideChannel::listen_for_end() {
  if (!stream_->readable()) return false;
  std::byte more;
  iovec room{&more, 1};
  const bool wanted = farewell_filled_ < farewell_.size();
  if (wanted) room = {farewell_.data() + farewell_filled_, farewell_.size() - farewell_filled_};
  const IoOutcome outcome = stream_->read({&room, 1});
  if (outcome.end) {
    end(State::kClosed, text_of(outcome));
  } else if (outcome.over()) {
    end(State::kEnded, text_of(outcome));
  } else if (outcome.bytes != 0 && !wanted) {
    end(State::kEnded, "it sent more on the side channel than is allowed");
  } else if (outcome.bytes != 0) {
    farewell_filled_ += outcome.bytes;
  } else {
    return false;
  }
  return true;
}

void SideChannel::leave(std::uint64_t sent) {
  if (stream_ && state_ < State::kClosed) {
    const auto last = std::as_bytes(std::span(&sent, 1));
    unsent_.insert(unsent_.end(), last.begin(), last.end());
    send();
  }
  close();
}

std::optional<std::uint64_t> SideChannel::farewell() const {
  if (farewell_.empty() || farewell_filled_ < farewell_.size()) return std::nullopt;
  return ByteReader(farewell_).get<std::uint64_t>();
}

void SideChannel::end(State state, std::string why) {
  state_ = state;
  why_ = std::move(why);
}

void SideChannel::close() {
  if (stream_) close_gently(*stream_);
  stream_.reset();
  connector_.reset();
  if (state_ < State::kClosed) end(State::kEnded, "closed by this rank");
}

Result<std::unique_ptr<SideChannels>> SideChannels::open(PortOptions options, bool farewells) {
  RONDO_TRY(auto port, StreamPort::open(std::move(options), always));
  return std::unique_ptr<SideChannels>(new SideChannels(std::move(port), farewells));
}

Result<std::unique_ptr<SideChannel>> SideChannels::connect(const LinkName& name, ByteSpan address,
                                                           ByteSpan blob) {
  if (blob.size() > SideChannel::kMaxBlob)
    return fail(StatusCode::kInvalidArgument,
                "{} bytes for rank {} on the side channel; at most {} fit", blob.size(), name.to,
                SideChannel::kMaxBlob);
  RONDO_TRY(auto connector, port_->connect(name, 1, address, SideChannel::frame(blob)));
  return std::make_unique<SideChannel>(name, port_->options().vigilance, std::move(connector),
                                       farewells_);
}

std::unique_ptr<SideChannel> SideChannels::accept() {
  while (auto arrival = port_->accept()) {
    if (arrival->streams.size() != 1) continue;  // no side channel
    unread_.push_back(std::make_unique<SideChannel>(
        arrival->name, port_->options().vigilance, arrival->from.text(),
        std::move(arrival->streams.front()), farewells_));
  }
  for (auto it = unread_.begin(); it != unread_.end();) {
    (*it)->progress();
    const SideChannel::State state = (*it)->state();
    if (state == SideChannel::State::kOpening) {
      ++it;
      continue;
    }
    std::unique_ptr<SideChannel> received = std::move(*it);
    it = unread_.erase(it);
    if (state == SideChannel::State::kOpen) return received;
    RONDO_INFO(kNet, "dropped rank {} at '{}': {}", received->name().from, port_->options().network,
               received->why());
  }
  return nullptr;
}

}  // namespace rondo::net
