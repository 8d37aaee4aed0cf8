// Comm: what stands behind an ncclComm_t. The engine's communicator plus what only the C API knows:
// configuration, state of a nonblocking communicator, queue order, user-made operations.
//
// Guarantees: found only through the handle table, alive while a pin is held. Members without a
// lock are set before the handle leaves the library, or are atomic.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "api/config.h"
#include "api/handles.h"
#include "collectives/communicator/call_order.h"
#include "collectives/communicator/communicator.h"
#include "collectives/host/host_stream.h"
#include "collectives/host/tagged_messages.h"

namespace rondo::api {

// An operation of ncclRedOpCreatePreMulSum.
struct UserOp {
  DataType type;
  std::array<std::byte, 8> scalar{};
  const void* late_scalar = nullptr;  // ncclScalarDevice: read when the call runs
};

class Comm {
 public:
  Comm(CommConfig config, CommOptions options)
      : config(std::move(config)), options(std::move(options)) {}
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank = -1;  // once there is an engine
  int size = 0;
  const CommConfig config;
  const CommOptions options;
  ncclComm_t handle = nullptr;

  bool blocking() const { return config.fields.blocking != 0; }

  // The engine's communicator; nullptr until it has been made, and always if that failed.
  Communicator* engine() const { return engine_.load(std::memory_order_acquire); }
  void set_engine(std::shared_ptr<Communicator> made);

  // Ends whatever is running or waiting in this communicator. Repeated calls do nothing.
  void end_calls();
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  CallOrder order;
  std::unique_ptr<HostStream> worker;  // runs the jobs of a nonblocking one; made at its first
  std::atomic<int> pending{0};         // jobs of a nonblocking communicator that have not finished

  // Messages with tags, once rondoCommOpenMessages has been called.
  std::shared_ptr<TaggedMessages> tagged_messages() const;
  void set_tagged_messages(std::shared_ptr<TaggedMessages> opened);

  // Of the engine's communicator, which has been made, and of its messages.
  std::uint64_t memory_bytes() const;

  void wait_for_queue();

  // The first failure of a job whose caller has gone.
  void note(const Error& error);
  std::optional<Error> noted() const;

  std::atomic<bool> finalized{false};
  std::atomic<bool> revoked{false};
  std::atomic<bool> suspended{false};
  std::atomic<bool> ticket_open{false};   // ncclCommGetUniqueId, until ncclCommGrow takes it
  std::atomic<std::uint64_t> tickets{0};  // that ncclCommGetUniqueId made

  int add_user_op(const UserOp& op);  // its number as ncclRedOp_t
  bool remove_user_op(int number);
  std::optional<UserOp> user_op(int number) const;

  void add_registration(void* handle);
  bool remove_registration(const void* handle);
  std::vector<void*> take_registrations();

 private:
  std::shared_ptr<Communicator> owner_;
  std::atomic<Communicator*> engine_{nullptr};
  std::atomic<bool> ended_{false};
  mutable std::mutex mutex_;
  std::optional<Error> noted_;
  std::shared_ptr<TaggedMessages> tagged_messages_;
  std::map<int, UserOp> user_ops_;
  std::vector<void*> registrations_;
};

using CommPin = HandleTable<Comm>::Pin;
HandleTable<Comm>& comms();

// Any communicator that is alive; NULL, foreign, destroyed and forked ones are refused.
Result<CommPin> find_comm(ncclComm_t comm, const char* function);
// One that the ranks have made; until then the caller is told to wait, or why making it failed.
Result<CommPin> find_made_comm(ncclComm_t comm, const char* function);
// One that can run calls now: made, not finalized, revoked or suspended.
Result<CommPin> find_usable_comm(ncclComm_t comm, const char* function);
// The same, empty where it is not: for the usual case at the cost of the look-up alone, and only
// for this thread until its call returns (Pin::keep() lifts that).
CommPin pin_if_usable(ncclComm_t comm);

// Takes the communicator out of the table. end_calls: what runs is told to end, otherwise what is
// queued is finished first. The communicator goes with what is returned.
Result<std::unique_ptr<Comm>> retire(ncclComm_t comm, const char* function, bool end_calls);

}  // namespace rondo::api
