// SPDX-License-Identifier: Apache-2.0
#include "api/comm.h"

#include <algorithm>

#include "api/arguments.h"
#include "base/guard.h"
#include "transport/memory/memory_registry.h"

namespace rondo::api {

Comm::~Comm() {
  (void)guarded("forgetting registrations", [this] {
    return forget_registrations(take_registrations()), ok_status();
  }).ok();
}

void Comm::set_engine(std::shared_ptr<Communicator> made) {
  owner_ = std::move(made);
  rank = owner_->rank();
  size = owner_->size();
  is_plain_ = blocking() && !config.check_buffers && owner_->options().device < 0 &&
              owner_->profiler() == nullptr;
  engine_.store(owner_.get(), std::memory_order_seq_cst);
  // end_calls() during the creation has only set the flag.
  if (ended_.load(std::memory_order_seq_cst)) owner_->abort();
}

void Comm::end_calls() {
  if (ended_.exchange(true, std::memory_order_seq_cst)) return;
  (void)guarded("ending messages", [this] {
    if (auto messages = tagged_messages())
      messages->abort(fail(StatusCode::kInvalidUsage, "communicator was aborted by this process"));
    return ok_status();
  }).ok();
  (void)guarded("ending calls", [this] {
    if (Communicator* made = engine_.load(std::memory_order_seq_cst)) made->abort();
    return ok_status();
  }).ok();
}

std::shared_ptr<TaggedMessages> Comm::tagged_messages() const {
  std::lock_guard lock(mutex_);
  return tagged_messages_;
}

void Comm::set_tagged_messages(std::shared_ptr<TaggedMessages> opened) {
  std::lock_guard lock(mutex_);
  tagged_messages_ = std::move(opened);
}

std::uint64_t Comm::memory_bytes() const {
  const auto messages = tagged_messages();
  return engine()->memory().total() + (messages ? messages->memory_bytes() : 0);
}

std::uint64_t Comm::gpu_bytes() const {
  const auto messages = tagged_messages();
  return engine()->memory().device_bytes + (messages ? messages->gpu_bytes() : 0);
}

void Comm::wait_for_queue() { Turn(order).finish(); }

void Comm::note(const Error& error) {
  std::lock_guard lock(mutex_);
  if (!noted_) noted_ = copy_of(error);
}

std::optional<Error> Comm::noted() const {
  std::lock_guard lock(mutex_);
  return noted_;
}

int Comm::add_user_op(const UserOp& op) {
  // Numbers are unique in the process, so that an operation of another communicator is an error.
  // They end below rondo.h's own operations.
  constexpr int kFirst = 0x100, kLast = 0x7fff0000;
  static std::atomic<int> next{kFirst};
  std::lock_guard lock(mutex_);
  for (;;) {
    int number = next.fetch_add(1, std::memory_order_relaxed);
    if (number < kFirst || number > kLast) {
      next.store(kFirst, std::memory_order_relaxed);
      continue;
    }
    if (user_ops_.emplace(number, op).second) return number;
  }
}

bool Comm::remove_user_op(int number) {
  std::lock_guard lock(mutex_);
  return user_ops_.erase(number) == 1;
}

std::optional<UserOp> Comm::user_op(int number) const {
  std::lock_guard lock(mutex_);
  const auto it = user_ops_.find(number);
  if (it == user_ops_.end()) return std::nullopt;
  return it->second;
}

std::uint64_t Comm::register_block(void* buffer, std::size_t bytes) const {
  if (engine() == nullptr || engine()->options().device < 0) return 0;
  return gpu::memory_registry().add(buffer, bytes);
}

void Comm::add_registration(void* handle) {
  std::lock_guard lock(mutex_);
  registrations_.push_back(handle);
}

bool Comm::remove_registration(const void* handle) {
  std::lock_guard lock(mutex_);
  return std::erase(registrations_, handle) == 1;
}

std::vector<void*> Comm::take_registrations() {
  std::lock_guard lock(mutex_);
  return std::exchange(registrations_, {});
}

HandleTable<Comm>& comms() {
  static auto& table = *new HandleTable<Comm>(HandleKind::kComm);  // outlives main
  return table;
}

namespace {

Error refused(HandleState state, ncclComm_t comm, const char* function) {
  switch (state) {
    case HandleState::kDestroyed:
      return fail(StatusCode::kInvalidArgument, "comm {} has already been destroyed",
                  fmt::ptr(comm));
    case HandleState::kForked:
      return fail(StatusCode::kInvalidUsage,
                  "{} : comm {} belongs to the parent of this forked process; make a new one",
                  function, fmt::ptr(comm));
    default:
      return fail(StatusCode::kInvalidArgument, "Error: corrupted comm object detected");
  }
}

}  // namespace

Result<CommPin> find_comm(ncclComm_t comm, const char* function) {
  RONDO_CHECK_OK(not_null(comm, function, "comm"));
  auto found = comms().pin(comm);
  if (found.state != HandleState::kAlive) return refused(found.state, comm, function);
  return std::move(found.pin);
}

Result<CommPin> find_made_comm(ncclComm_t comm, const char* function) {
  RONDO_TRY(CommPin pin, find_comm(comm, function));
  if (pin->engine() != nullptr) return pin;
  if (auto error = pin->noted()) return *error;
  return fail(StatusCode::kInvalidUsage,
              "{} : comm {} is still being initialized; wait until ncclCommGetAsyncError returns "
              "ncclSuccess, and end the group of its ncclCommInit* first",
              function, fmt::ptr(comm));
}

Result<CommPin> find_usable_comm(ncclComm_t comm, const char* function) {
  RONDO_TRY(CommPin pin, find_made_comm(comm, function));
  if (pin->revoked.load(std::memory_order_relaxed))
    return fail(StatusCode::kInvalidUsage, "{}: communicator was revoked", function);
  if (pin->finalized.load(std::memory_order_relaxed))
    return fail(StatusCode::kInvalidUsage,
                "{} : comm {} has been finalized; only ncclCommDestroy is allowed", function,
                fmt::ptr(comm));
  if (pin->suspended.load(std::memory_order_relaxed))
    return fail(StatusCode::kInvalidUsage, "{} : comm {} is suspended; call ncclCommResume first",
                function, fmt::ptr(comm));
  return pin;
}

CommPin pin_if_usable(ncclComm_t comm) {
  auto found = comms().pin_here(comm);
  const Comm* there = found.pin.get();
  const bool usable = there != nullptr && there->engine() != nullptr &&
                      !there->revoked.load(std::memory_order_relaxed) &&
                      !there->finalized.load(std::memory_order_relaxed) &&
                      !there->suspended.load(std::memory_order_relaxed);
  return usable ? std::move(found.pin) : CommPin();
}

Result<std::unique_ptr<Comm>> retire(ncclComm_t comm, const char* function, bool end_calls) {
  {
    RONDO_TRY(CommPin pin, find_comm(comm, function));
    const bool faulted = pin->noted() || (pin->engine() && pin->engine()->fault());
    if (!end_calls && !faulted) {
      pin->wait_for_queue();
    }
    end_calls = end_calls || faulted || pin->engine() == nullptr;
  }
  HandleState state;
  auto removed = comms().remove(comm, &state, [&](Comm& leaving) {
    if (end_calls) leaving.end_calls();
  });
  if (!removed) return refused(state, comm, function);
  return removed;
}

}  // namespace rondo::api
