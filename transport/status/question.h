// SPDX-License-Identifier: Apache-2.0
// Question: one line to another process, and its answer: to a process of this host by its status
// socket, to a rank of another host by a connection that proves the secret.
//
// The owner polls and calls step(); no call waits. Guarantees: over by the deadline at the latest.
// Of several addresses of a rank all are tried at once; the first that proves itself is asked.
//
//   Question question = Question::to_socket(path, "VIEW OWN", deadline);
//   while (!question.is_over()) { poll(...); question.step(); }
//   RONDO_TRY(std::string text, question.answer());
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/auth/handshake.h"
#include "transport/bootstrap/framed_link.h"
#include "transport/socket/address.h"
#include "transport/socket/socket.h"

namespace rondo::status {

using net::Clock;

class Question {
 public:
  static Question to_socket(const std::string& path, std::string line, Clock::time_point deadline);
  struct Rank {
    std::vector<net::SocketAddress> addresses;  // with the port
    auth::Digest secret{};
    std::string endpoint;
  };
  static Question to_rank(const Rank& rank, std::string line, Clock::time_point deadline);

  bool is_over() const { return answer_.has_value(); }
  const Result<std::string>& answer() const { return *answer_; }  // once it is over
  // When the other process last proved that it runs: by its handshake, or by a part of its answer.
  // A connection alone proves nothing: the system makes it for a process that is stopped, too.
  Clock::time_point alive_at() const { return alive_at_; }
  void add_entries(std::vector<pollfd>* entries) const;
  Clock::time_point next() const { return is_over() ? Clock::time_point::max() : deadline_; }
  void step();

 private:
  struct Attempt {
    net::Socket socket;
    std::optional<auth::Handshake> shake;
  };
  Question(std::string line, Clock::time_point deadline)
      : line_(std::move(line)), deadline_(deadline) {}
  void end(Result<std::string> answer);
  void advance(Attempt& attempt);
  void step_attempts();
  void step_link();
  void step_socket();

  std::string line_;
  Clock::time_point deadline_;
  Rank rank_;
  std::vector<Attempt> attempts_;
  std::optional<bootstrap::FramedLink> link_;
  net::Socket socket_;
  std::size_t sent_ = 0;
  std::string received_;
  Clock::time_point alive_at_ = Clock::time_point::min();
  std::optional<Result<std::string>> answer_;
};

// Waits until all are over.
void await_answers(std::vector<Question>& questions);

}  // namespace rondo::status
