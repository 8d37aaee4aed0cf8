// SPDX-License-Identifier: Apache-2.0
// Rail: one path of a link: a port of each end and the queue pairs between the two ports.
//
// Guarantees: a rail is lost at the first failed completion, when its port or device fails, when
// its posted writes make no progress for RONDO_NET_TIMEOUT while its owner calls watch(), or by
// lose(). Its queue pairs then stop and it drains: every write that was acknowledged to the peer
// still completes here. After that nothing can arrive over it any more: it is gone. A lost rail
// does not recover. Nothing waits. Cost: while writes are posted, every fourth watch() reads the
// clock; all else is stores and loads.
//
//   RONDO_TRY(auto rail, Rail::make(*this, adapters.at(0), 0, pairs));
//   send(rail->end());  RONDO_CHECK_OK(rail->connect(theirs));  RONDO_CHECK_OK(rail->ack_ready());
//   if (rail->has_room(pair, 2)) RONDO_CHECK_OK(rail->post(pair, writes, Posted::Kind::kPart, 7));
//   rail->watch(others_are_up);  if (rail->state() == Rail::State::kGone) report_to_peer();
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transport/verbs/ibverbs/adapters.h"
#include "transport/verbs/ibverbs/message.h"
#include "transport/verbs/ibverbs/queue_pair.h"

namespace rondo::verbs {

class Rail;

class RailOwner {
 public:
  virtual ~RailOwner() = default;
  // The peer rang. Returns the fault if that is invalid.
  virtual std::optional<std::string> rung(Rail& rail, std::size_t pair, Ring ring) = 0;
  // The peer's port has acknowledged a Posted::Kind::kPart. Not called for a lost rail.
  virtual void sent(Rail& rail, std::uint16_t value) = 0;
  // A Posted::Kind::kPut and all before it have taken effect. Not called for a lost rail.
  virtual void put(Rail& rail, std::uint16_t value) = 0;
};

class Rail final : private PairOwner {
 public:
  enum class State {
    kOpening,  // connected, or about to be: nothing must be posted
    kUp,
    kDraining,  // lost; completions are outstanding
    kGone,      // drained; it has no queue pairs any more
  };
  // port: index into Adapters. pairs: number of queue pairs.
  static Result<std::unique_ptr<Rail>> make(RailOwner& owner, Adapter& adapter, std::size_t port,
                                            std::size_t pairs);
  ~Rail() override;
  Rail(const Rail&) = delete;
  Rail& operator=(const Rail&) = delete;

  // This end, for the peer; `number` is the connector's.
  RailEnd end(std::uint8_t number) const;
  Status connect(std::size_t index, const RailEnd& peer);
  // Called by the connector once connected; its peer writes nothing before.
  Status ack_ready();

  State state() const { return state_; }
  bool lost() const { return state_ >= State::kDraining; }
  std::size_t index() const { return index_; }
  std::size_t port() const { return port_; }  // index into Adapters
  std::size_t pairs() const { return pairs_.size(); }
  const RailEnd& peer() const { return peer_; }
  std::span<std::byte> rings() const { return rings_.bytes; }
  std::uint32_t rings_key() const { return rings_.local_key; }
  // Messages and puts that went over this rail. busy_ns counts only time in which this side looked
  // for completions.
  const net::RailTraffic& traffic() const { return traffic_; }
  void count_received(std::uint64_t bytes) { traffic_.received_bytes += bytes; }
  // Number of the peer's puts that have taken effect by this rail or earlier ones.
  std::uint64_t puts() const;

  bool has_room(std::size_t pair, std::size_t writes) const;
  // One completion, of the last write, covers all.
  Status post(std::size_t pair, std::span<Write> writes, Posted::Kind kind,
              std::uint16_t value = 0);

  void lose(std::string why);
  // Loses the rail if it has failed, and destroys its queue pairs once they have drained.
  // others: another rail is up, so a port that is down is lost at once. True: the state changed.
  bool watch(bool others);
  // True: the rail does not drain, because its device reports no completions any more.
  bool is_stuck() const;
  const std::string& why() const { return why_; }
  // "rxe0:1 10.77.0.1 -> 10.77.0.2, queue pairs 17->18, 19->20"
  std::string text() const;

 private:
  Rail(RailOwner& owner, Adapter& adapter, std::size_t port)
      : owner_(owner), adapter_(adapter), port_(port) {}
  using Clock = std::chrono::steady_clock;
  struct Pair {
    std::unique_ptr<QueuePair> pair;
    std::uint32_t slot = 0;
    int sends = 0, receives = 0;  // posted, not completed
  };
  void completed(int pair, const Posted& posted, const ibv_wc& completion) override;
  std::optional<std::string> take(std::size_t pair, const ibv_wc& completion);
  void count_posted(std::span<const Write> writes);
  void count_completed();
  bool rests();
  bool drained() const;
  void drop();

  RailOwner& owner_;
  Adapter& adapter_;
  const std::size_t port_;
  std::size_t index_ = 0;
  std::vector<Pair> pairs_;
  Slice rings_;  // the peer writes it: Rings
  RailEnd peer_;
  State state_ = State::kOpening;
  std::size_t ready_ = 0;  // number of the connector's queue pairs that accept writes
  std::string why_;
  Clock::time_point lost_at_{};
  bool moved_ = false;  // something completed since the last rests()
  int posted_ = 0;      // outstanding sends of all pairs
  net::RailTraffic traffic_;
  int parts_ = 0;                // outstanding parts of messages and puts
  std::int64_t counted_at_ = 0;  // now_ns(), where traffic_.busy_ns ends
  unsigned looks_ = 0;
  Clock::time_point looked_at_{};
  std::chrono::duration<double> rested_{};
};

}  // namespace rondo::verbs
