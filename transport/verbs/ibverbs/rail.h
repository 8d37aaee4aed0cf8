// Rail: one way of a link: a port here, a port there, and the queue pairs between them.
//
// Guarantees: a rail is lost by the first completion that is none of success, by its port or
// device, or when what it has posted rests for RONDO_NET_TIMEOUT while its owner looks; lose()
// loses it for any other reason. Then its queue pairs stop, and it drains: what the peer had been
// told is done is still told here, and then nothing more can come over it, now or ever: it is gone.
// A lost rail does not come back. Nothing waits. Cost: watch() reads the clock in every fourth call
// in which something is posted; all else is stores and loads.
//
//   RONDO_TRY(auto rail, Rail::make(*this, adapters.at(0), 0, pairs));
//   send(rail->end());  RONDO_CHECK_OK(rail->connect(theirs));  RONDO_CHECK_OK(rail->say_ready());
//   if (rail->has_room(pair, 2)) RONDO_CHECK_OK(rail->post(pair, writes, Posted::Kind::kPart, 7));
//   rail->watch(others_are_up);  if (rail->state() == Rail::State::kGone) tell_the_peer();
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transport/verbs/ibverbs/adapter.h"
#include "transport/verbs/ibverbs/message.h"
#include "transport/verbs/ibverbs/queue_pair.h"

namespace rondo::verbs {

class Rail;

class RailOwner {
 public:
  virtual ~RailOwner() = default;
  // What the peer rang with. The sentence: it may not have done so.
  virtual std::optional<std::string> rung(Rail& rail, std::size_t pair, Ring ring) = 0;
  // A Posted::Kind::kPart has been taken by the peer. Not of a rail that is lost.
  virtual void sent(Rail& rail, std::uint16_t value) = 0;
  // A Posted::Kind::kPut and all before it have taken effect there. Not of a rail that is lost.
  virtual void put(Rail& rail, std::uint16_t value) = 0;
};

class Rail final : private PairOwner {
 public:
  enum class State {
    kOpening,  // connected, or about to be: nothing may be posted
    kUp,
    kDraining,  // lost; completions are still to come
    kGone,      // it has no queue pairs any more
  };
  // index: among the rails of the link; it can be changed until the rail connects.
  static Result<std::unique_ptr<Rail>> make(RailOwner& owner, Adapter& adapter, std::size_t port,
                                            std::size_t pairs);
  ~Rail() override;
  Rail(const Rail&) = delete;
  Rail& operator=(const Rail&) = delete;

  // What the peer is to know; `number` as the connector numbers it.
  RailEnd end(std::uint8_t number) const;
  Status connect(std::size_t index, const RailEnd& peer);
  // The connector's, once connected: its peer writes nothing before.
  Status say_ready();

  State state() const { return state_; }
  bool lost() const { return state_ >= State::kDraining; }
  std::size_t index() const { return index_; }
  std::size_t port() const { return port_; }  // of Adapters
  std::size_t pairs() const { return pairs_.size(); }
  const RailEnd& peer() const { return peer_; }
  std::span<std::byte> rings() const { return rings_.bytes; }
  std::uint32_t rings_key() const { return rings_.local_key; }
  // The number of the peer's puts that have taken effect by this rail, or before.
  std::uint64_t puts() const;

  bool has_room(std::size_t pair, std::size_t writes) const;
  // The last write completes for all.
  Status post(std::size_t pair, std::span<Write> writes, Posted::Kind kind,
              std::uint16_t value = 0);

  void lose(std::string why);
  // Loses the rail where it is time to, and drops the queue pairs once they have drained.
  // others: there is another way, so that a port that is down need not come up again. True if the
  // state has changed.
  bool watch(bool others);
  // A rail that does not drain: its device tells nothing any more.
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
  bool rests();
  bool drained() const;
  void drop();

  RailOwner& owner_;
  Adapter& adapter_;
  const std::size_t port_;
  std::size_t index_ = 0;
  std::vector<Pair> pairs_;
  Slice rings_;  // that the peer writes, Rings
  RailEnd peer_;
  State state_ = State::kOpening;
  std::size_t ready_ = 0;  // queue pairs of the connector that take writes
  std::string why_;
  Clock::time_point lost_at_{};
  bool moved_ = false;  // something completed since rests() looked
  int posted_ = 0;      // sends of all pairs
  unsigned looks_ = 0;
  Clock::time_point looked_at_{};
  std::chrono::duration<double> rested_{};
};

}  // namespace rondo::verbs
