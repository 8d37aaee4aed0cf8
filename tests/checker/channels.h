// SPDX-License-Identifier: Apache-2.0
// Channels: the connections between ranks in the checkers: FIFOs with a fixed number of slots.
//
// Guarantees: a verb moves only when all the data and free slots that it needs are present. The
// witness's verdict reports a message that is not received whole by the verb of the call that it
// was sent for, a slot that is used out of turn, and a chunk longer than a slot.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/primitives.h"
#include "tests/checker/call_spec.h"

namespace rondo::check {

// The actions of a verb, in this order: receive, combine, finish, write the output, send.
struct LinkVerb {
  enum class Operand : std::uint8_t { kNone, kInput, kOutput };
  const char* name;
  bool receives;
  Operand operand;     // this rank's own contribution to the value
  bool operand_first;  // operand + received, else received + operand
  bool finishes;
  bool writes_output;
  bool sends;
};

struct LinksOp {
  enum class Kind : std::uint8_t { kEnter, kVerb, kRoles, kReturn };
  Kind kind;
  const LinkVerb* verb = nullptr;
  Peers from;
  Peers to;
  int channel = 0;
  Chunk chunk{0, 0, 0};
  int first = -1;  // kRoles: the two lists; kEnter, kReturn: the call's number
  int second = -1;
  bool own_is_output = false;  // the operand is the output instead of the input
  int own_slot = -1;           // >= 0: the output is this slot of the rank's own staging
};

// The Primitives that a program returns: every verb calls program.add(op).
template <class Program>
class LinkPort {
 public:
  LinkPort(Program& program, Peers from, Peers to, int channel)
      : program_(program), from_(from), to_(to), channel_(channel) {}

  void send(const Chunk& c) { add(kSend, c); }
  void recv(const Chunk& c) { add(kRecv, c); }
  void copy_send(const Chunk& c) { add(kCopySend, c); }
  void recv_copy_send(const Chunk& c) { add(kRecvCopySend, c); }
  void recv_reduce_send(const Chunk& c) { add(kRecvReduceSend, c); }
  void recv_reduce_copy(const Chunk& c) { add(kRecvReduceCopy, c); }
  void recv_reduce_copy_send(const Chunk& c) { add(kRecvReduceCopySend, c); }
  void send_kept(const Chunk& c) { add(kSendKept, c); }
  void recv_reduce_before(const Chunk& c) { add(kRecvReduceBefore, c); }
  void recv_reduce_after(const Chunk& c) { add(kRecvReduceAfter, c); }
  void finish(const Chunk& c) { add(kFinish, c); }

 private:
  using O = LinkVerb::Operand;
  // clang-format off
  static constexpr LinkVerb kSend{"send", false, O::kInput, false, false, false, true};
  static constexpr LinkVerb kRecv{"recv", true, O::kNone, false, false, true, false};
  static constexpr LinkVerb kCopySend{"copy_send", false, O::kInput, false, false, true, true};
  static constexpr LinkVerb kRecvCopySend{
      "recv_copy_send", true, O::kNone, false, false, true, true};
  static constexpr LinkVerb kRecvReduceSend{
      "recv_reduce_send", true, O::kInput, false, false, false, true};
  static constexpr LinkVerb kRecvReduceCopy{
      "recv_reduce_copy", true, O::kInput, false, true, true, false};
  static constexpr LinkVerb kRecvReduceCopySend{
      "recv_reduce_copy_send", true, O::kInput, false, true, true, true};
  static constexpr LinkVerb kSendKept{"send_kept", false, O::kOutput, false, false, false, true};
  static constexpr LinkVerb kRecvReduceBefore{
      "recv_reduce_before", true, O::kOutput, false, false, true, false};
  static constexpr LinkVerb kRecvReduceAfter{
      "recv_reduce_after", true, O::kOutput, true, false, true, false};
  static constexpr LinkVerb kFinish{"finish", false, O::kOutput, false, true, true, false};
  // clang-format on
  void add(const LinkVerb& verb, const Chunk& c) {
    if (c.count == 0) return;  // no message
    const Peers from = verb.receives ? from_ : Peers{};
    const Peers to = verb.sends ? to_ : Peers{};
    program_.add({LinksOp::Kind::kVerb, &verb, from, to, channel_, c});
  }

  Program& program_;
  Peers from_;
  Peers to_;
  int channel_;
};

// LinksProgram: an executor of Primitives algorithms that only records the verbs.
//
// Each of the functions that a rank runs at once (roles) is recorded as a list of its own.
// LinksChecker runs the lists of all ranks.
class LinksProgram {
 public:
  using Port = LinkPort<LinksProgram>;

  LinksProgram(int rank, int size) : rank_(rank), size_(size), lists_(1) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  Port between(Peers from, Peers to, int channel) { return {*this, from, to, channel}; }

  template <class A, class B>
  void roles(A&& a, B&& b) {
    const int before = current_;
    const int first = static_cast<int>(lists_.size());
    lists_.resize(lists_.size() + 2);
    add({LinksOp::Kind::kRoles, nullptr, {}, {}, 0, {}, first, first + 1});
    current_ = first;
    a();
    current_ = first + 1;
    b();
    current_ = before;
  }

  void add(const LinksOp& op) { lists_[current_].push_back(op); }
  const std::vector<std::vector<LinksOp>>& lists() const { return lists_; }

 private:
  int rank_;
  int size_;
  int current_ = 0;
  std::vector<std::vector<LinksOp>> lists_;  // the first list is the rank's main algorithm
};

static_assert(FoldingLinks<LinksProgram>);

class Channels {
 public:
  Channels(Expressions& pool, Witness& witness, int slots, std::uint64_t slot_elements)
      : pool_(pool), witness_(witness), slots_(slots), slot_elements_(slot_elements) {}

  // The executing thread of the witness: a rank in a call, or one of the rank's roles.
  struct Actor {
    int thread;
    int rank;
    int call;
  };
  bool blocks(int rank, const LinksOp& op) {
    bool full = false;
    return blocked_by(rank, op, full) != nullptr;
  }
  std::string why_blocked(int rank, const LinksOp& op);
  // `kept`: the staging slot that the verb uses instead of the output, or null.
  void perform(const Actor& actor, const LinksOp& op, UserBuffers& own,
               TrackedMemory* kept = nullptr);
  // To be called at the end: reports messages that no rank has received.
  void report_unread();

 private:
  struct Message {
    std::uint64_t count;
    int call;
  };
  struct Channel {
    int from, to, number;
    std::uint64_t sent = 0, received = 0;
    std::vector<Message> messages;         // by slot
    std::vector<Clocks::Snapshot> filled;  // by slot: the signal sent when it was filled
    std::vector<Clocks::Snapshot> emptied;
    std::vector<int> filler, emptier;
    TrackedMemory slots;
    TrackedMemory ends;  // 0: the sender's, 1: the receiver's; only one thread may use each at a
                         // time
  };

  Channel& channel(int from, int to, int number);
  const Channel* blocked_by(int rank, const LinksOp& op, bool& full);
  void receive(const Actor& actor, const LinksOp& op, int from, std::vector<Expr>& value,
               bool first);
  void send(const Actor& actor, const LinksOp& op, int to, const std::vector<Expr>& value);

  Expressions& pool_;
  Witness& witness_;
  int slots_;
  std::uint64_t slot_elements_;
  std::map<std::tuple<int, int, int>, Channel> channels_;
};

}  // namespace rondo::check
