// SPDX-License-Identifier: Apache-2.0
#include "tests/explorer/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace rondo::explorer {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash * 3 + value + 0x632be59bd9b4e019u) * 0x9e3779b97f4a7c15u;
  hash ^= hash >> 29;
  hash *= 0xbf58476d1ce4e5b9u;
  return hash ^ (hash >> 32);
}

std::uint64_t mix_bytes(std::uint64_t hash, const void* at, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(at);
  for (std::size_t done = 0; done < bytes; done += sizeof(std::uint64_t)) {
    std::uint64_t piece = 0;
    std::memcpy(&piece, from + done, std::min(sizeof(piece), bytes - done));
    hash = mix(hash, piece);
  }
  return hash;
}

bool acquires(Order order) { return order == Order::kAcquire || order == Order::kSeqCst; }
bool releases(Order order) { return order == Order::kRelease || order == Order::kSeqCst; }

}  // namespace

Machine::Machine(Scenario& scenario, Model model, const Mutant& mutant, int time_outs)
    : scenario_(scenario), model_(model), mutant_(mutant), time_outs_(time_outs) {
  word_at_.assign(scenario.memory().size() / 4 + 1, -1);
  scenario.describe(*this);
  actors_.resize(static_cast<std::size_t>(scenario.actors()));
  for (Actor& actor : actors_) {
    actor.stack = std::make_unique<std::byte[]>(kStackBytes);
    actor.identity = FiberIdentity::of_stack(actor.stack.get(), kStackBytes);
  }
  thread_identity_ = FiberIdentity::of_thread();
}

Machine::~Machine() {
  for (Actor& actor : actors_) {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(actor.stack.get(), kStackBytes);
#endif
    actor.identity.destroy();
  }
}

void Machine::add_word(const void* at, std::size_t bytes, Role role, int owner,
                       const std::string& name) {
  const auto* place = static_cast<const std::byte*>(at);
  const int plain_index = role == Role::kPlain ? plain_words_++ : -1;
  word_at_[static_cast<std::size_t>(place - scenario_.memory().data()) / 4] =
      static_cast<int>(words_.size());
  words_.push_back({place, bytes, role, owner, name, plain_index, {}});
}

int Machine::word_of(const void* at) const {
  const auto offset = static_cast<const std::byte*>(at) - scenario_.memory().data();
  const bool inside =
      offset >= 0 && offset < static_cast<std::ptrdiff_t>(scenario_.memory().size());
  return inside ? word_at_[static_cast<std::size_t>(offset) / 4] : -1;
}

void Machine::rewind(const Word& bell) {
  std::memset(const_cast<std::byte*>(bell.at), 0, bell.bytes);
}

std::uint64_t Machine::in_memory(const Word& word) const {
  std::uint64_t value = 0;
  std::memcpy(&value, word.at, word.bytes);
  return value;
}

void Machine::restart() {
  std::memset(scenario_.memory().data(), 0, scenario_.memory().size());
  scenario_.reset();
  for (Word& word : words_) word.released.reset();
  happened_.reset();
  failure_.clear();
  for (Actor& actor : actors_) {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(actor.stack.get(), kStackBytes);
#endif
    actor.context = make_fcontext(actor.stack.get() + kStackBytes, kStackBytes, &Machine::enter);
    actor.state = State::kRunnable;
    actor.silent = true;
    actor.doing = "start";
    actor.word = -1;
    actor.time_outs_left = time_outs_;
    actor.history = actor.place = actor.newest_load = 0;
    actor.buffer.clear();
    actor.known.reset();
    actor.past.reset();
    actor.last_loaded.assign(words_.size(), ~std::uint64_t{0});
    actor.parked = false;
  }
}

// --- the accesses of the running actor -----------------------------------------------------------

std::uint64_t Machine::look_up(const void* at, Order order) {
  const int index = word_of(at);
  if (index < 0) fail("a load of an unnamed word");
  Word& word = words_[index];
  Actor& actor = self();
  if (mutant_.kind == Mutant::Kind::kLoad && mutant_.role == word.role && mutant_.from == order)
    order = mutant_.to;
  for (auto entry = actor.buffer.rbegin(); entry != actor.buffer.rend(); ++entry)
    if (entry->word == index) return entry->value;
  if (word.owner == current_ && word.role != Role::kBell) return in_memory(word);
  const bool signal = word.role == Role::kBell || word.role == Role::kParked;
  if (mutant_.kind == Mutant::Kind::kNoRecheck && actor.parked && !signal)
    return actor.last_loaded[index];
  const bool ordered = order == Order::kSeqCst && model_ == Model::kWeak;
  pause(ordered ? State::kNeedsNoSeqCst : State::kRunnable, "loads", index, false);
  if (acquires(order)) actor.known |= word.released;
  if (word.role == Role::kBell) rewind(word);
  const std::uint64_t value = in_memory(word);
  if (word.plain_index >= 0) read_plain(at, word.bytes);
  // An actor that loads `parked` and wakes the sleeper if it was set does not keep the value.
  observe(word.role == Role::kParked ? 0 : value);
  const bool seen_before = actor.last_loaded[index] == value;
  actor.last_loaded[index] = value;
  if (mutant_.kind == Mutant::Kind::kNoRing && word.role == Role::kParked) return 0;
  if (mutant_.kind == Mutant::Kind::kOneTooMany && mutant_.role == word.role && seen_before)
    return value + 1;
  return value;
}

void Machine::store(void* at, std::size_t, std::uint64_t value, Order order) {
  const int index = word_of(at);
  if (index < 0) fail("a store to an unnamed word");
  const Word& word = words_[index];
  Actor& actor = self();
  if (word.owner != kAnyone && word.owner != current_)
    fail(fmt::format("stores to {}, which belongs to actor {}", word.name, word.owner));
  if (mutant_.kind == Mutant::Kind::kStore && mutant_.role == word.role && mutant_.from == order)
    order = mutant_.to;
  if (word.role == Role::kParked) {
    actor.parked = value != 0;
    if (actor.parked && mutant_.kind == Mutant::Kind::kBellReadAtParking) {
      const auto bell = std::find_if(words_.begin(), words_.end(), [&](const Word& w) {
        return w.role == Role::kBell && w.owner == current_;
      });
      pause(State::kRunnable, "loads", static_cast<int>(bell - words_.begin()), false);
      rewind(*bell);
    }
  }
  actor.buffer.push_back({index, value, order, releases(order) ? published() : Knowledge{}});
  if (order == Order::kSeqCst && model_ == Model::kTso)
    pause(State::kNeedsEmptyBuffer, "stores", index, true);
}

void Machine::increment(std::uint32_t& at) {
  if (mutant_.kind == Mutant::Kind::kNoIncrement) return;
  const int index = word_of(&at);
  const bool relaxed = mutant_.kind == Mutant::Kind::kIncrement;
  const bool overtakes = relaxed && model_ == Model::kWeak;
  pause(overtakes ? State::kRunnable : State::kNeedsEmptyBuffer, "increments", index, false);
  at = 1;
  if (!relaxed) words_[index].released |= published();
}

void Machine::wait(std::uint32_t& at, std::uint32_t expected) {
  Actor& actor = self();
  const int index = word_of(&at);
  pause(State::kNeedsEmptyBuffer, "waits on", index, false);
  if (expected != 0) fail("sleeps on a bell that it has not read");
  if (mutant_.kind == Mutant::Kind::kBellReadLate) expected = at;
  if (at == expected) pause(State::kSleeps, "sleeps on", index, true);
  actor.history = mix(actor.place, 1);
}

void Machine::wake(std::uint32_t& at) {
  if (mutant_.kind == Mutant::Kind::kNoWake) return;
  const int index = word_of(&at);
  pause(State::kNeedsEmptyBuffer, "wakes", index, false);
  for (Actor& actor : actors_)
    if (actor.state == State::kSleeps && actor.word == index) actor.state = State::kRunnable;
}

void Machine::read_plain(const void* at, std::size_t bytes) {
  const int index = word_of(at);
  if (index < 0 || words_[index].plain_index < 0) fail("a plain load of an unnamed word");
  const Word& word = words_[index];
  Actor& actor = self();
  const std::size_t written = write_event(word.plain_index);
  if (happened_[written] && !actor.known[written])
    fail(fmt::format("data race: reads {} while it may be written", word.name));
  const std::size_t read = read_event(word.plain_index, current_);
  forget(read);
  happened_.set(read);
  actor.known.set(read);
  observe(mix_bytes(0, at, bytes));
}

void Machine::write_plain(const void* at) {
  const int index = word_of(at);
  if (index < 0 || words_[index].plain_index < 0) fail("a plain store to an unnamed word");
  const Word& word = words_[index];
  const std::size_t written = write_event(word.plain_index);
  for (std::size_t event = written; event < written + kEventsPerWord; ++event) {
    if (happened_[event] && !self().known[event])
      fail(fmt::format("data race: overwrites {} while it may be {}", word.name,
                       event == written ? "written" : "read"));
    happened_.reset(event);
    forget(event);
  }
  happened_.set(written);
  self().known.set(written);
}

void Machine::write_past(const void* at) {
  write_plain(at);
  self().past.set(write_event(words_[word_of(at)].plain_index));
}

void Machine::observe(std::uint64_t value) { self().history = mix(self().history, value); }
void Machine::at(std::uint64_t state) { self().history = self().place = mix(1, state); }

// --- fibers --------------------------------------------------------------------------------------

void Machine::enter(transfer_t from) {
  auto* machine = static_cast<Machine*>(from.data);
  machine->scheduler_ = from.fctx;
  FiberSwitch first;
  first.arrive(&machine->thread_identity_);
  machine->scenario_.act(*machine, machine->current_);
  for (;;) machine->pause(State::kEnded, "has ended", -1, false);
}

void Machine::pause(State state, const char* doing, int word, bool silent) {
  Actor& actor = self();
  actor.state = state;
  actor.doing = doing;
  actor.word = word;
  actor.silent = silent;
  if (silent && can_run(actor)) return;
  FiberSwitch away;
  away.leave(thread_identity_, false);
  const transfer_t from = jump_fcontext(scheduler_, nullptr);
  scheduler_ = from.fctx;
  away.arrive(&thread_identity_);
}

void Machine::resume(int index) {
  current_ = index;
  Actor& actor = actors_[index];
  FiberSwitch away;
  away.leave(actor.identity, false);
  const transfer_t from = jump_fcontext(actor.context, this);
  actor.context = from.fctx;
  away.arrive(nullptr);
}

void Machine::fail(const std::string& what) {
  failure_ = fmt::format("actor {} {}", current_, what);
  for (;;) pause(State::kEnded, "has failed", -1, false);
}

// --- the scheduler's side ------------------------------------------------------------------------

bool Machine::can_run(const Actor& actor) const {
  switch (actor.state) {
    case State::kRunnable:
      return true;
    case State::kNeedsEmptyBuffer:
      return actor.buffer.empty();
    case State::kNeedsEmptyBuffers:
      return std::all_of(actors_.begin(), actors_.end(),
                         [](const Actor& each) { return each.buffer.empty(); });
    case State::kNeedsNoSeqCst:
      return std::none_of(actor.buffer.begin(), actor.buffer.end(),
                          [](const Pending& entry) { return entry.order == Order::kSeqCst; });
    case State::kPolls:  // it would otherwise see its own store in flight
      return in_memory(words_[actor.word]) != actor.newest_load && !has_in_flight(actor);
    default:
      return false;
  }
}

bool Machine::can_drain(const Actor& actor, std::size_t entry) const {
  if (entry == 0) return true;
  if (model_ == Model::kTso || releases(actor.buffer[entry].order)) return false;
  return std::none_of(actor.buffer.begin(), actor.buffer.begin() + entry,
                      [&](const Pending& e) { return e.word == actor.buffer[entry].word; });
}

void Machine::drain(Actor& actor, std::size_t entry) {
  const Pending& store = actor.buffer[entry];
  Word& word = words_[store.word];
  std::memcpy(const_cast<std::byte*>(word.at), &store.value, word.bytes);
  word.released = store.released;
  actor.buffer.erase(actor.buffer.begin() + static_cast<std::ptrdiff_t>(entry));
}

void Machine::steps(std::vector<Step>& enabled) {
  enabled.clear();
  for (std::size_t i = 0; i < actors_.size(); ++i)
    if (actors_[i].silent && can_run(actors_[i]) && !failed()) {
      resume(static_cast<int>(i));
      i = static_cast<std::size_t>(-1);
    }
  for (std::size_t i = 0; i < actors_.size(); ++i) {
    const int actor = static_cast<int>(i);
    if (can_run(actors_[i])) enabled.push_back({Step::Kind::kRun, actor, 0});
    for (std::size_t entry = 0; entry < actors_[i].buffer.size(); ++entry)
      if (can_drain(actors_[i], entry))
        enabled.push_back({Step::Kind::kDrain, actor, static_cast<int>(entry)});
  }
  const bool stuck = enabled.empty();
  for (std::size_t i = 0; i < actors_.size() && !stuck; ++i)
    if (actors_[i].state == State::kSleeps && actors_[i].time_outs_left > 0)
      enabled.push_back({Step::Kind::kTimeOut, static_cast<int>(i), 0});
}

void Machine::take(const Step& step) {
  Actor& actor = actors_[step.actor];
  if (step.kind == Step::Kind::kRun) return resume(step.actor);
  if (step.kind == Step::Kind::kDrain) return drain(actor, static_cast<std::size_t>(step.entry));
  --actor.time_outs_left;
  actor.state = State::kRunnable;
}

bool Machine::all_ended() const {
  return std::all_of(actors_.begin(), actors_.end(),
                     [](const Actor& actor) { return actor.state == State::kEnded; });
}

std::string Machine::who_sleeps() const {
  std::string text;
  for (std::size_t i = 0; i < actors_.size(); ++i) {
    const bool sleeps = actors_[i].state == State::kSleeps;
    if (sleeps || actors_[i].state == State::kPolls)
      text += fmt::format("{}actor {} {} without limit on {}", text.empty() ? "" : ", ", i,
                          sleeps ? "sleeps" : "polls", words_[actors_[i].word].name);
  }
  return text;
}

std::uint64_t Machine::state() const {
  const std::hash<Knowledge> of;
  std::uint64_t hash =
      mix_bytes(of(happened_), scenario_.memory().data(), scenario_.memory().size());
  for (const Word& word : words_)
    if (word.plain_index < 0) hash = mix(hash, of(word.released));
  const bool remembers = mutant_.kind == Mutant::Kind::kOneTooMany;
  for (const Actor& actor : actors_) {
    hash = mix(hash, actor.history);
    hash = mix(hash, static_cast<std::uint64_t>(actor.state) << 32 |
                         static_cast<std::uint64_t>(actor.time_outs_left) << 16 |
                         static_cast<std::uint64_t>(actor.word + 1));
    hash = mix(hash, std::hash<std::string_view>()(actor.doing));
    if (actor.state == State::kPolls) hash = mix(hash, actor.newest_load);
    hash = mix(mix(hash, of(actor.known)), of(actor.past));
    for (const Pending& entry : actor.buffer) {
      hash = mix(hash, static_cast<std::uint64_t>(entry.word) << 8 |
                           static_cast<std::uint64_t>(entry.order));
      hash = mix(mix(hash, entry.value), of(entry.released));
    }
    if (remembers)
      for (const std::uint64_t value : actor.last_loaded) hash = mix(hash, value);
  }
  return hash;
}

std::string Machine::describe(const Step& step) const {
  const Actor& actor = actors_[step.actor];
  const auto name = [&](int word) { return word < 0 ? std::string() : words_[word].name; };
  switch (step.kind) {
    case Step::Kind::kRun:
      return fmt::format("actor {} {} {}", step.actor, actor.doing, name(actor.word));
    case Step::Kind::kDrain:
      return fmt::format("actor {}'s store of {} to {} reaches memory", step.actor,
                         actor.buffer[step.entry].value, name(actor.buffer[step.entry].word));
    default:
      return fmt::format("actor {}'s sleep times out", step.actor);
  }
}

}  // namespace rondo::explorer
