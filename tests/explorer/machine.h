// SPDX-License-Identifier: Apache-2.0
// Machine: shared memory, store buffers and a futex for actors. Every step of them can be
// scheduled.
//
// It has two memory models. kTso is x86: a store enters its actor's buffer and drains first in,
// first out; a seq_cst store, an increment, a fence and a system call wait until the buffer is
// empty. kWeak is what C++ allows beyond that: relaxed stores to different words drain in any
// order, release stores after all earlier ones, and a seq_cst store does not delay later loads that
// are not seq_cst. Loads take effect in program order; a missing acquire shows as a data race.
//
// Only what other actors can observe is a step: shared loads, drains, increments, futex calls.
// Plain accesses, accesses to own words and stores into the buffer happen together with the step
// before them. Races on plain words are found through happens-before sets (knowledge.h), so orders
// of plain accesses are not explored. A bell counts the rings since its owner last read it (0 or
// 1): the owner compares it with nothing else, so states that differ only in old rings are equal.
// Actors are fibers with their own stacks. An execution that is given up is abandoned without
// unwinding, so objects on actors' stacks must be trivially destructible; everything else belongs
// to the scenario, which resets it.
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

// What is explored. reset() must restore the shared memory and all other state.
class Scenario {
 public:
  virtual ~Scenario() = default;
  virtual int actors() const = 0;
  virtual std::span<std::byte> memory() = 0;
  virtual void describe(Machine& machine) = 0;  // names each word of memory() once
  virtual void reset() = 0;
  virtual void act(Machine& machine, int actor) = 0;
  virtual std::string check() { return {}; }  // runs after the end of all actors; empty: no error
};

struct Step {
  enum class Kind : std::uint8_t { kRun, kDrain, kTimeOut };
  Kind kind;
  int actor;
  int entry;  // index in the store buffer
};

class Machine {
 public:
  Machine(Scenario& scenario, Model model, const Mutant& mutant, int time_outs);
  ~Machine();

  // For Scenario::describe. `owner` is the only actor that stores to the word, or kAnyone. A bell
  // belongs to the actor that sleeps on it; the others increment it.
  static constexpr int kAnyone = -1;
  template <class T>
  void word(const T& at, Role role, int owner, const std::string& name) {
    add_word(&at, sizeof(T), role, owner, name);
  }
  template <class T>
  void plain(const T& at, const std::string& name) {
    add_word(&at, sizeof(T), Role::kPlain, kAnyone, name);
  }

  // For actors, through SimAtomics.
  std::uint64_t load(const void* at, std::size_t, Order order) {
    return self().newest_load = look_up(at, order);
  }
  void store(void* at, std::size_t bytes, std::uint64_t value, Order order);
  void fence() { fence(State::kNeedsEmptyBuffer); }
  // membarrier: returns when no actor has a store in its buffer. With more than two actors this is
  // more than the system guarantees (one barrier per actor at some moment during the call).
  void heavy_fence() { fence(State::kNeedsEmptyBuffers); }
  void increment(std::uint32_t& at);
  void wait(std::uint32_t& at, std::uint32_t expected);
  void wake(std::uint32_t& at);
  // The pause of a polling loop: returns when the word in memory differs from this actor's newest
  // load. Iterations that would see the same value are no steps, so a loop that polls without limit
  // is found, and so is an actor that is never woken.
  void await_change(const void* at) { pause(State::kPolls, "polls", word_of(at), true); }
  void read_plain(const void* at, std::size_t bytes);
  void write_plain(const void* at);
  // A non-temporal store: later stores may overtake it, release and seq_cst ones too, until
  // fence_past().
  void write_past(const void* at);
  void fence_past() {
    if (mutant_.kind != Mutant::Kind::kNoPastFence) self().past.reset();
  }

  // For checks in actors. require() ends the execution as failed. at() declares that everything the
  // actor still remembers follows from `state`, so that more executions reach equal states. After
  // each sleep the actor must remember no more than that until the next at() (the Waiter keeps
  // nothing from one sleep to the next, and no wait condition is allowed to).
  void require(bool holds, const std::string& what) {
    if (!holds) fail(what);
  }
  void at(std::uint64_t state);

  // For the explorer.
  void restart();
  void steps(std::vector<Step>& enabled);  // empty: no actor can continue
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
    Knowledge released;  // accesses that an acquiring load of it adds
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
    bool silent = false;  // its next operation is no separate step
    const char* doing = "start";
    int word = -1;  // the word that the next step accesses or sleeps on
    std::uint64_t newest_load = 0;
    int time_outs_left = 0;
    std::uint64_t history = 0;  // hash of all that it has observed since...
    std::uint64_t place = 0;    // ...the newest at()
    std::vector<Pending> buffer;
    Knowledge known;
    Knowledge past;  // of these, non-temporal stores without a fence after them
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
  Knowledge published() const { return self().known & ~self().past; }
  void forget(std::size_t event) {
    for (Word& word : words_) word.released.reset(event);
    for (Actor& actor : actors_) {
      actor.known.reset(event);
      actor.past.reset(event);
      for (Pending& entry : actor.buffer) entry.released.reset(event);
    }
  }
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
