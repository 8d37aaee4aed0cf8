// SPDX-License-Identifier: Apache-2.0
#include "transport/status/question.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/socket/tcp.h"
#include "transport/status/user_folder.h"
#include "transport/status/visitor.h"

namespace rondo::status {
namespace {

constexpr std::size_t kMaxAnswer = std::size_t{64} << 20;
constexpr std::size_t kMaxAttempts = 4;  // addresses of a rank, the best first

}  // namespace

Question Question::to_socket(const std::string& path, std::string line,
                             Clock::time_point deadline) {
  Question question(std::move(line) + '\n', deadline);
  StatusConnection made = connect_status(path);
  question.socket_ = std::move(made.socket);
  if (made.error == EAGAIN)  // too many wait already: its process takes none
    question.end(fail(StatusCode::kTimeout, "the status socket {} takes no connection", path));
  else if (made.error != 0)
    question.end(fail_errno(made.error, "cannot connect to the status socket {}", path));
  return question;
}

Question Question::to_rank(const Rank& rank, std::string line, Clock::time_point deadline) {
  Question question(std::move(line), deadline);
  question.rank_ = rank;
  for (const net::SocketAddress& address : rank.addresses) {
    if (question.attempts_.size() == kMaxAttempts) break;
    auto socket = net::start_connect(address);
    if (socket.ok()) question.attempts_.push_back({std::move(*socket), {}});
  }
  if (question.attempts_.empty())
    question.end(fail(StatusCode::kRemoteError, "{} cannot be reached", rank.endpoint));
  return question;
}

void Question::add_entries(std::vector<pollfd>* entries) const {
  if (is_over()) return;
  if (link_) return entries->push_back(link_->entry());
  if (socket_) {
    const bool sends = sent_ < line_.size();
    return entries->push_back({socket_.get(), static_cast<short>(sends ? POLLOUT : POLLIN), 0});
  }
  for (const Attempt& attempt : attempts_) {
    const bool reads = attempt.shake && attempt.shake->unsent().empty();
    entries->push_back({attempt.socket.get(), static_cast<short>(reads ? POLLIN : POLLOUT), 0});
  }
}

void Question::step() {
  if (is_over()) return;
  if (!link_ && !socket_) step_attempts();
  if (link_ && !is_over()) step_link();
  if (socket_ && !is_over()) step_socket();
  if (!is_over() && Clock::now() >= deadline_) end(fail(StatusCode::kTimeout, "no answer in time"));
}

void Question::end(Result<std::string> answer) {
  answer_ = std::move(answer);
  attempts_.clear();
  link_.reset();
  socket_.reset();
}

void Question::step_attempts() {
  for (Attempt& attempt : attempts_) {
    advance(attempt);
    if (link_ || is_over()) return;
  }
  std::erase_if(attempts_, [](const Attempt& attempt) { return !attempt.socket.valid(); });
  if (attempts_.empty()) end(fail(StatusCode::kRemoteError, "{} does not answer", rank_.endpoint));
}

void Question::advance(Attempt& attempt) {
  if (!attempt.shake) {
    pollfd entry{attempt.socket.get(), POLLOUT, 0};
    if (poll(&entry, 1, 0) <= 0) return;
    if (net::connect_outcome(attempt.socket) != 0) return attempt.socket.reset();
    attempt.shake = auth::Handshake::connector(rank_.secret, rank_.endpoint);
  }
  auth::Handshake& shake = *attempt.shake;
  Status moved = auth::move(shake, attempt.socket.get());
  if (moved.ok() && shake.state() == auth::Handshake::State::kTurn) {
    alive_at_ = Clock::now();
    shake.answer({});
    moved = auth::move(shake, attempt.socket.get());
  }
  if (!moved.ok()) return attempt.socket.reset();
  if (shake.state() != auth::Handshake::State::kProven) return;
  alive_at_ = Clock::now();
  const auth::Digest key = shake.session_key();
  auto link =
      bootstrap::FramedLink::make(std::move(attempt.socket), key, auth::Records::Side::kConnector);
  if (!link.ok()) return end(link.error());
  link_ = std::move(*link);
  const Status sent = link_->send(kQuestionFrame, 0, std::as_bytes(std::span(line_)));
  if (!sent.ok()) end(sent.error());
}

void Question::step_link() {
  if (const Status flushed = link_->flush(); !flushed.ok()) return end(flushed.error());
  const std::uint64_t before = link_->traffic().bytes;
  auto frame = link_->receive();
  if (!frame.ok()) return end(frame.error());
  if (link_->traffic().bytes > before) alive_at_ = Clock::now();
  if (!*frame || (*frame)->type != kAnswerFrame) return;
  const auto& payload = (*frame)->payload;
  end(std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
}

void Question::step_socket() {
  while (sent_ < line_.size()) {
    const ssize_t count =
        send(socket_.get(), line_.data() + sent_, line_.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) return end(fail_errno(errno, "a status socket broke"));
    sent_ += static_cast<std::size_t>(count);
  }
  for (char buffer[16384];;) {
    const ssize_t count = recv(socket_.get(), buffer, sizeof(buffer), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) return end(fail_errno(errno, "a status socket broke"));
    if (count == 0 && received_.empty())
      return end(fail(StatusCode::kRemoteError, "the process closed its status socket"));
    if (count == 0) return end(std::move(received_));
    received_.append(buffer, static_cast<std::size_t>(count));
    if (received_.size() > kMaxAnswer)
      return end(fail(StatusCode::kRemoteError, "an answer of more than {} bytes", kMaxAnswer));
  }
}

void await_answers(std::vector<Question>& questions) {
  for (;;) {
    std::vector<pollfd> entries;
    auto next = Clock::time_point::max();
    for (Question& question : questions) {
      question.step();
      question.add_entries(&entries);
      next = std::min(next, question.next());
    }
    const auto is_over = [](const Question& question) { return question.is_over(); };
    if (std::all_of(questions.begin(), questions.end(), is_over)) return;
    const net::Deadline no_deadline{Clock::time_point::max(), {}};
    (void)net::wait_until(entries, next, no_deadline, "waiting for status").ok();
  }
}

}  // namespace rondo::status
