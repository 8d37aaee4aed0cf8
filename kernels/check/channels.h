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

#include "kernels/check/job.h"
#include "kernels/check/links_program.h"

namespace rondo::check {

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
