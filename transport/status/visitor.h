// SPDX-License-Identifier: Apache-2.0
// Visitor: a connection that asks this process for its status: lines of text of a client, frames of
// a rank of another host that has proved the secret (FramedLink), or one HTTP request.
//
// Guarantees: never waits. A line has at most kMaxLine bytes, that of a rank kMaxFrame, an HTTP
// request kMaxRequest. A
// visitor that takes no byte of its answer for kPatience, or asks nothing for that long, has ended.
// An HTTP client gets kHttpPatience for that, and for its whole request. Cost: the unsent answer in
// memory.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/bootstrap/framed_link.h"
#include "transport/socket/socket.h"

namespace rondo::status {

using net::Clock;

// What a client has set for its next requests.
struct Conversation {
  bool json = false;
  std::string may_not_control{};  // why it may not change the job; "": it may
  double timeout_seconds = 5;     // 0: no limit
};

// An answer that takes time: it asks other processes, or continues without end.
class Task {
 public:
  virtual ~Task() = default;
  virtual void add_entries(std::vector<pollfd>* entries) const = 0;
  virtual Clock::time_point next() const = 0;  // when step() is due without an event
  // Appends what it has to `out`; true: that was the last.
  virtual bool step(std::string* out) = 0;
  virtual bool is_endless() const { return false; }  // then the client may ask on beside it
};

struct Reply {
  Reply(std::string text, bool closes = false, std::unique_ptr<Task> task = nullptr)  // NOLINT
      : text(std::move(text)), closes(closes), task(std::move(task)) {}

  std::string text;
  bool closes;                 // after the text
  std::unique_ptr<Task> task;  // what it appends follows the text; then the connection closes
};

// A word that clients send, alone or followed by an argument, in any case.
struct Word {
  std::string_view word;
  std::function<Reply(Conversation& conversation, std::string_view argument)> answer;
};
// `unknown`: the words did not match.
Reply answer_line(const std::vector<Word>& words, Conversation& conversation,
                  std::string_view line);

// Frames between ranks: a question is a line, its answer the text.
inline constexpr std::uint16_t kQuestionFrame = 32;
inline constexpr std::uint16_t kAnswerFrame = 33;

class Visitor {
 public:
  static constexpr std::size_t kMaxLine = 1023;
  static constexpr std::size_t kMaxFrame = std::size_t{1} << 20;  // of a rank that asks
  static constexpr std::size_t kMaxRequest = 8192;
  static constexpr std::size_t kMaxUnsent = std::size_t{64} << 20;
  static constexpr std::chrono::seconds kPatience{10};
  static constexpr std::chrono::seconds kHttpPatience{2};

  explicit Visitor(net::Socket socket, std::string may_not_control = "")
      : socket_(std::move(socket)) {
    conversation_.may_not_control = std::move(may_not_control);
  }
  // The answer to a whole HTTP request.
  using Http = std::function<std::string(std::string_view request)>;
  Visitor(net::Socket socket, Http http) : socket_(std::move(socket)), http_(std::move(http)) {}
  explicit Visitor(bootstrap::FramedLink link) : link_(std::move(link)) {}

  bool has_ended() const { return ended_; }
  void add_entries(std::vector<pollfd>* entries) const;
  Clock::time_point next() const;
  void step(const std::vector<Word>& words);

 private:
  bool receive_line(std::string* line);
  void answer_request();
  std::size_t max_received() const { return http_ ? kMaxRequest : 2 * kMaxLine; }
  void receive();
  void flush();
  void answer(Reply reply);
  bool is_sent() const;
  Clock::time_point end_of_patience() const;

  net::Socket socket_;
  const Http http_{};  // empty: the client sends lines
  std::optional<bootstrap::FramedLink> link_;
  Conversation conversation_;
  std::string received_, unsent_;
  std::size_t sent_ = 0;
  std::unique_ptr<Task> task_;
  bool closing_ = false;  // once all is sent
  bool ended_ = false, peer_closed_ = false;
  Clock::time_point last_ = Clock::now();  // when bytes moved, or a line was answered; of HTTP:
                                           // when it came, or bytes of the answer moved
};

}  // namespace rondo::status
