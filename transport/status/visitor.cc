// SPDX-License-Identifier: Apache-2.0
#include "transport/status/visitor.h"

#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "base/printable.h"

namespace rondo::status {
namespace {

bool same_letter(char a, char b) {
  return std::toupper(static_cast<unsigned char>(a)) == std::toupper(static_cast<unsigned char>(b));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

bool begins_with(std::string_view line, std::string_view word) {
  return line.size() >= word.size() &&
         std::equal(word.begin(), word.end(), line.begin(), same_letter) &&
         (line.size() == word.size() || line[word.size()] == ' ');
}

bool may_retry(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Reply answer_line(const std::vector<Word>& words, Conversation& conversation,
                  std::string_view line) {
  line = trimmed(line);
  for (const Word& word : words)
    if (begins_with(line, word.word))
      return word.answer(conversation, trimmed(line.substr(word.word.size())));
  return {fmt::format("ERROR: Unknown command {}\n", printable(line))};
}

void Visitor::add_entries(std::vector<pollfd>* entries) const {
  if (link_) {
    entries->push_back(link_->entry());
  } else {
    const bool receives = !peer_closed_ && !closing_ && received_.size() <= max_received();
    const int events = (is_sent() ? 0 : POLLOUT) | (receives ? POLLIN : 0);
    entries->push_back({events != 0 ? socket_.get() : -1, static_cast<short>(events), 0});
  }
  if (task_) task_->add_entries(entries);
}

Clock::time_point Visitor::next() const {
  const auto limit = task_ && is_sent() ? Clock::time_point::max() : end_of_patience();
  return task_ ? std::min(limit, task_->next()) : limit;
}

Clock::time_point Visitor::end_of_patience() const {
  return last_ + (http_ ? kHttpPatience : kPatience);
}

void Visitor::step(const std::vector<Word>& words) {
  receive();
  if (http_) answer_request();
  std::string line;
  while (!http_ && !ended_ && !closing_ && (!task_ || task_->is_endless()) && receive_line(&line))
    if (!line.empty()) answer(answer_line(words, conversation_, line));
  if (task_ && !closing_) {
    std::string more;
    const bool is_last = task_->step(&more);
    answer({std::move(more), is_last});
  }
  flush();
  if (closing_ && is_sent()) ended_ = true;
  if (peer_closed_ && !closing_ && (!task_ || task_->is_endless())) ended_ = true;
  if ((!task_ || !is_sent()) && Clock::now() >= end_of_patience()) ended_ = true;
}

bool Visitor::is_sent() const { return sent_ == unsent_.size() && !(link_ && link_->unsent()); }

// After the last line, a client may close its sending side and wait for the answer.
void Visitor::receive() {
  if (link_ || peer_closed_) return;
  for (char buffer[1024];;) {
    const ssize_t count = recv(socket_.get(), buffer, sizeof(buffer), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && may_retry(errno)) return;
    if (count < 0) ended_ = true;
    if (count <= 0) peer_closed_ = true;
    if (count <= 0) return;
    received_.append(buffer, static_cast<std::size_t>(count));
    if (!http_) last_ = Clock::now();
    if (!http_ && received_.find('\n') == std::string::npos && received_.size() > kMaxLine)
      ended_ = true;
    if (ended_ || received_.size() > max_received()) return;
  }
}

// A request ends with an empty line: closing the socket before all of it has been read would reset
// the connection, and the answer would be lost.
void Visitor::answer_request() {
  const bool is_whole = received_.find("\r\n\r\n") != std::string::npos;
  if (ended_ || closing_ || (!is_whole && received_.size() <= kMaxRequest)) return;
  answer({http_(received_), true});
  last_ = Clock::now();
}

bool Visitor::receive_line(std::string* line) {
  if (link_) {
    auto frame = link_->receive();
    if (!frame.ok()) peer_closed_ = ended_ = true;
    if (!frame.ok() || !*frame || (*frame)->type != kQuestionFrame) return false;
    const auto& payload = (*frame)->payload;
    line->assign(reinterpret_cast<const char*>(payload.data()),
                 std::min(payload.size(), kMaxFrame));
    last_ = Clock::now();
    return true;
  }
  const auto end = received_.find('\n');
  if (end == std::string::npos || end > kMaxLine) return false;
  *line = received_.substr(0, end);
  if (!line->empty() && line->back() == '\r') line->pop_back();
  received_.erase(0, end + 1);
  return true;
}

void Visitor::answer(Reply reply) {
  if (reply.task) task_ = std::move(reply.task);
  if (reply.closes) {
    task_.reset();
    closing_ = true;
  }
  unsent_ += reply.text;
  if (unsent_.size() - sent_ > kMaxUnsent) ended_ = true;
  // A rank gets its answer as one frame.
  if (!link_ || !closing_) return;
  if (!link_->send(kAnswerFrame, 0, std::as_bytes(std::span(unsent_))).ok()) ended_ = true;
  sent_ = unsent_.size();
}

void Visitor::flush() {
  if (link_) {
    if (!link_->flush().ok()) ended_ = true;
    return;
  }
  while (sent_ < unsent_.size()) {
    const ssize_t count =
        send(socket_.get(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && may_retry(errno)) return;
    if (count < 0) ended_ = true;
    if (count < 0) return;
    sent_ += static_cast<std::size_t>(count);
    last_ = Clock::now();
  }
  unsent_.clear();
  sent_ = 0;
}

}  // namespace rondo::status
