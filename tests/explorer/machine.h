// Machine: shared memory, store buffers and a futex for actors whose every step can be scheduled.
//
// Two memory models. kTso is x86: a store enters its actor's buffer and drains first in, first out;
// a seq_cst store, an increment, a fence and a system call wait until the buffer is empty. kWeak is
// what C++ allows beyond that: relaxed stores to different words drain in any order, release stores
// after all earlier ones, and a seq_cst store does not hold up later loads that are not seq_cst
// themselves. Loads take effect in program order; that an acquire is missing shows as a data race.
//
// Only what others can observe is a step: shared loads, drains, increments, futex calls. Plain
// accesses, own words and stores into the buffer happen together with the step before them; races
// on plain words are found by what the accesses know of each other (knowledge.h), so no order of
// plain accesses needs to be tried. A bell counts rings since its owner has read it last (0 or 1):
// the owner compares it with nothing else, and states that differ only in old rings are one. Actors
// are fibers on stacks of their own; an execution that is given up is abandoned where it stands, so
// what actors keep on their stacks must be trivially destructible, and everything else belongs to
// the scenario, which resets it.
#pragma once

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fiber_switch.h"
#include "tests/explorer/knowledge.h"
#include "tests/explorer/mutant.h"

namespace rondo::explorer {

enum class Model : std::uint8_t { kTso, kWeak };

class Machine;

// What is explored. The shared memory and all other state must be as new after reset().
class Scenario {
 public:
  virtual ~Scenario() = default;
  virtual int actors() const = 0;
  virtual std::span<std::byte> memory() = 0;
  virtual void describe(Machine& machine) = 0;  // names every word of memory(), once
  virtual void reset() = 0;
  virtual void act(Machine& machine, int actor) = 0;
  virtual std::string check() { return {}; }  // after the end of all actors; empty: all is well
};

struct Step {
  enum class Kind : std::uint8_t { kRun, kDrain, kTimeOut };
  Kind kind;
  int actor;
  int entry;  // of the store buffer
};

class Machine {
 public:
  Machine(Scenario& scenario, Model model, const Mutant& mutant, int time_outs);
  ~Machine();

  // For Scenario::describe. `owner`: the only actor that stores there, or kAnyone. A bell belongs
  // to the actor that sleeps on it and is incremented by the others.
  static constexpr int kAnyone = -1;
  template <class T>
  void word(const T& at, Role role, int owner, const std::string& name) {
    add_word(&at, sizeof(T), role, owner, name);
  }
  template <class T>
  void plain(const T& at, const std::string& name) {
    add_word(&at, sizeof(T), Role::kPlain, kAnyone, name);
  }

  // For actors, by way of SimAtomics.
  std::uint64_t load(const void* at, std::size_t, Order order) {
    return self().newest_load = look_up(at, order);
  }
  void store(void* at, std::size_t bytes, std::uint64_t value, Order order);
  void fence() { fence(State::kNeedsEmptyBuffer); }
  // membarrier: goes on once no actor has a store in its buffer. Of more than two actors more than
  // the system promises, which is a barrier of each at some moment of the call.
  void heavy_fence() { fence(State::kNeedsEmptyBuffers); }
  void increment(std::uint32_t& at);
  void wait(std::uint32_t& at, std::uint32_t expected);
  void wake(std::uint32_t& at);
  // A polling loop's pause: until the word in memory is other than this actor's newest load gave.
  // Turns of the loop that would see the same again are no steps, so a loop that polls without end
  // is found, as is an actor that is never woken.
  void await_change(const void* at) { pause(State::kPolls, "polls", word_of(at), true); }
  void read_plain(const void* at, std::size_t bytes);
  void write_plain(const void* at);

  // For actors' own checks. require() ends the execution as failed. at(): everything that this
  // actor still remembers follows from `state`, which lets more executions meet in equal states; it
  // remembers no more than that after each sleep before the next at() (the Waiter keeps nothing
  // from one sleep to the next, and no wait condition may).
  void require(bool holds, const std::string& what) {
    if (!holds) fail(what);
  }
  void at(std::uint64_t state);

  // For the explorer.
  void restart();
  void steps(std::vector<Step>& enabled);  // empty: nothing can go on
  void take(const Step& step);
  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }
  bool all_ended() const;
  std::string who_sleeps() const;
  std::uint64_t state() const;
  std::string describe(const Step& step) const;

 private:
  struct Word {
    const std::byte* at;
    std::size_t bytes;
    Role role;
    int owner;
    std::string name;
    int plain_index;
    Knowledge released;  // what an acquiring load of it learns
  };
  struct Pending {  // a store in the buffer
    int word;
    std::uint64_t value;
    Order order;
    Knowledge released;
  };
  enum class State : std::uint8_t {
    kRunnable,
    kNeedsEmptyBuffer,
    kNeedsEmptyBuffers,  // of all actors
    kNeedsNoSeqCst,
    kPolls,
    kSleeps,
    kEnded
  };
  struct Actor {
    boost::context::detail::fcontext_t context = nullptr;
    FiberIdentity identity;
    std::unique_ptr<std::byte[]> stack;
    State state = State::kRunnable;
    bool silent = false;  // what it is about to do is not a step of its own
    const char* doing = "start";
    int word = -1;  // what the next step touches, or sleeps on
    std::uint64_t newest_load = 0;
    int time_outs_left = 0;
    std::uint64_t history = 0;  // hash of all that it has observed since...
    std::uint64_t place = 0;    // ...the newest at()
    std::vector<Pending> buffer;
    Knowledge known;
    std::vector<std::uint64_t> last_loaded;  // by word; for the mutant without re-check
    bool parked = false;                     // between setting `parked` and sleeping
  };

  static constexpr std::size_t kStackBytes = 128 << 10;
  static void enter(boost::context::detail::transfer_t from);

  void add_word(const void* at, std::size_t bytes, Role role, int owner, const std::string& name);
  int word_of(const void* at) const;
  Actor& self() { return actors_[current_]; }
  const Actor& self() const { return actors_[current_]; }
  std::uint64_t in_memory(const Word& word) const;
  std::uint64_t look_up(const void* at, Order order);
  void rewind(const Word& bell);
  void pause(State state, const char* doing, int word, bool silent);
  void fence(State until) {
    if (mutant_.kind != Mutant::Kind::kNoFence) pause(until, "fences", -1, true);
  }
  void resume(int actor);
  bool can_run(const Actor& actor) const;
  static bool has_in_flight(const Actor& actor) {  // a store to the word that it polls
    return std::any_of(actor.buffer.begin(), actor.buffer.end(),
                       [&](const Pending& store) { return store.word == actor.word; });
  }
  bool can_drain(const Actor& actor, std::size_t entry) const;
  void drain(Actor& actor, std::size_t entry);
  void forget(std::size_t event);
  void observe(std::uint64_t value);
  [[noreturn]] void fail(const std::string& what);

  Scenario& scenario_;
  const Model model_;
  const Mutant mutant_;
  const int time_outs_;
  std::vector<Word> words_;
  std::vector<int> word_at_;  // by offset / 4
  int plain_words_ = 0;
  std::vector<Actor> actors_;
  Knowledge happened_;
  int current_ = -1;
  boost::context::detail::fcontext_t scheduler_ = nullptr;
  FiberIdentity thread_identity_;
  std::string failure_;
};

}  // namespace rondo::explorer
