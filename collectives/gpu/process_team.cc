#include "collectives/gpu/process_team.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/atomics.h"
#include "base/poll_until.h"
#include "base/process.h"
#include "collectives/gpu/launch/kernel_loading.h"
#include "collectives/watchdog/fault_texts.h"
#include "collectives/watchdog/peer_words.h"
#include "kernels/cuda/kernels.h"
#include "kernels/reduce.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

constexpr auto kNap = std::chrono::microseconds(100);
constexpr double kPatientSeconds = 10;  // for streams to end when the team does

}  // namespace

Result<std::shared_ptr<ProcessTeam>> ProcessTeam::make(
    Seats seats, std::unique_ptr<ProcessBoard> board,
    std::unique_ptr<DeviceConnections> connections, std::vector<net::Socket> sockets) {
  std::shared_ptr<ProcessTeam> team(new ProcessTeam(std::move(seats), std::move(board)));
  team->connections_ = std::move(connections);
  RONDO_CHECK_OK(team->open(std::move(sockets)));
  return team;
}

ProcessTeam::ProcessTeam(Seats seats, std::unique_ptr<ProcessBoard> board)
    : api_(*gpu_api()),
      seats_(std::move(seats)),
      made_in_(fork_generation()),
      board_(std::move(board)),
      shape_{board_->staging_bytes()},
      groups_(seats_.around.gpu_of),
      led_(kPlainDescriptors),
      captured_(static_cast<std::size_t>(ranks()), kPlainDescriptors),
      lane_pieces_(captured_.size() * captured_.size()),
      lane_messages_(lane_pieces_.size()) {
  for (int r = 0; r < ranks(); ++r)
    if (is_local(r)) local_.push_back(r);
}

Done ProcessTeam::open(std::vector<net::Socket> sockets) {
  const DeviceScope scope(seats_.device);
  RONDO_CHECK_OK(scope.entered());
  const RelaxedCapture relaxed;
  std::vector<int> devices{seats_.device};
  for (const int device : seats_.devices)
    if (device >= 0 && std::find(devices.begin(), devices.end(), device) == devices.end())
      devices.push_back(device);
  several_devices_ = devices.size() > 1;
  desk_ = std::make_unique<MemoryDesk>(*board_, std::move(devices), seats_.party,
                                       !seats_.around.leader_reaches, std::move(sockets));
  for (const int rank : local_) {
    const DeviceScope there(seats_.devices[rank]);
    RONDO_CHECK_OK(there.entered());
    RONDO_CHECK_OK(
        check(api_.create_event(&finished_.emplace_back(), kEventPlain), "cudaEventCreate"));
  }
  if (leads()) {
    RONDO_CHECK_OK(
        load_kernels(api_, {cuda::kResolveKernel, cuda::kStoredCopyKernel}, {cuda::stored_kernel}));
    RONDO_CHECK_OK(check(api_.allocate(&arguments_, sizeof(cuda::CopyArgs)), "cudaMalloc"));
    static_assert(sizeof(cuda::CopyArgs) >= sizeof(cuda::ReduceArgs));
  }
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return fail_errno(errno, "eventfd");
  RONDO_TRY(watch_, Thread::start(
                        "the watch of a GPU", [this] { watch(); }, [](const Error&) {}));
  return done();
}

ProcessTeam::~ProcessTeam() {
  if (made_in_ != fork_generation()) {  // the parent's: its thread and its device are not here
    if (watch_.joinable()) watch_.detach();
    board_->leak();
    if (connections_ != nullptr) connections_->leak();
    (void)desk_.release();
    return;
  }
  const DeviceScope scope(seats_.device);
  const RelaxedCapture relaxed;
  bool ended = drained(kPatientSeconds);
  if (!ended) {
    released_ = true;
    look_soon();
    ended = drained(kPatientSeconds / 2);
  }
  if (leads() && ended && !released_) desk_->wait_until_mapped();
  HostAtomics::store_release(board_->party(seats_.party).mapped, kLeftTeam);
  stop_ = true;
  look_soon();
  if (watch_.joinable()) watch_.join();
  if (!ended) {
    board_->leak();
    if (connections_ != nullptr) connections_->leak();
    (void)desk_.release();
    return;
  }
  for (GpuEvent event : finished_)
    if (event != nullptr) api_.destroy_event(event);
  if (arguments_ != nullptr) api_.free_memory(arguments_);
}

bool ProcessTeam::drained(double seconds) {
  const auto deadline = seconds_from_now(seconds);
  return std::all_of(finished_.begin(), finished_.end(), [&](GpuEvent event) {
    if (event == nullptr) return true;
    return poll_until([&] { return api_.query_event(event) != kGpuNotReady; }, deadline);
  });
}

net::Patience ProcessTeam::patience() {
  double seconds = 60;
  {
    std::lock_guard lock(hooks_mutex_);
    if (!hooks_.empty()) seconds = hooks_[0]->limit_seconds();
  }
  return net::Patience::of(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)),
                           [this] { return !standing().ok(); });
}

Done ProcessTeam::write(GpuStream stream, std::uint32_t& word, std::uint32_t value) {
  return check(api_.stream_write32(stream, board_->on_device(word), value),
               "cuStreamWriteValue32 (several processes on one GPU need stream memory operations)");
}
Done ProcessTeam::await(GpuStream stream, std::uint32_t& word, std::uint32_t value, GpuWait how) {
  return check(api_.stream_wait32(stream, board_->on_device(word), value, how),
               "cuStreamWaitValue32 (several processes on one GPU need stream memory operations)");
}

// ---- a call, described and announced ----

Done ProcessTeam::collective(const CallRecord& record, std::span<const Side> sides,
                             GpuStream stream, bool capturing, Mismatch* mismatch) {
  RONDO_CHECK_OK(standing());
  const std::uint64_t sequence = capturing ? 0 : sequence_.load() + 1;
  if (sequence != 0) RONDO_CHECK_OK(wait_for_room(sequence));
  const CallSteps steps(record, ranks(), shape_);
  Enqueued call{record, sides, stream, steps};
  std::vector<cuda::CallDescriptor> made;
  for (std::size_t i = 0; i < local_.size(); ++i) {
    auto described = describe(call, local_[i], sides[i]);
    if (!described.ok()) {
      RONDO_CHECK_OK(standing());  // says better why
      return described.error();
    }
    described->sequence = sequence;
    call.staged |= (described->flags & (cuda::CallDescriptor::kSendStaged |
                                        cuda::CallDescriptor::kReceiveStaged)) != 0;
    call.flags.push_back(described->flags);
    made.push_back(*described);
  }
  for (std::size_t i = 0; i < local_.size(); ++i) {
    RONDO_TRY(const std::uint32_t index, place(local_[i], made[i]));
    RONDO_CHECK_OK(write(stream, board_->mailbox(local_[i]).descriptor, index));
  }
  if (sequence != 0) {
    led_[sequence % kPlainDescriptors] = sequence;
    publish(sequence);
    RONDO_CHECK_OK(compare(sequence, record, mismatch));
  }
  RONDO_CHECK_OK(leads() ? lead(call) : follow(call));
  return finish(local_[0], stream, capturing);
}

Done ProcessTeam::announce(const CallRecord& record, bool capturing, Mismatch* mismatch) {
  RONDO_CHECK_OK(standing());
  if (capturing) return done();  // kernels say what they replay
  const std::uint64_t sequence = sequence_.load() + 1;
  RONDO_CHECK_OK(wait_for_room(sequence));
  cuda::CallDescriptor made{};
  made.record = record;
  made.sequence = sequence;
  for (const int rank : local_) RONDO_CHECK_OK(place(rank, made));
  publish(sequence);
  return compare(sequence, record, mismatch);
}

std::vector<int> ProcessTeam::not_come() const {
  const std::uint64_t newest = sequence_.load(std::memory_order_acquire);
  std::vector<int> found;
  for (int r = 0; r < ranks(); ++r)
    if (HostAtomics::load_acquire(board_->party(seats_.around.party_of[r]).announced) < newest)
      found.push_back(r);
  return found;
}

void ProcessTeam::publish(std::uint64_t sequence) {
  sequence_.store(sequence, std::memory_order_release);
  HostAtomics::store_release(board_->party(seats_.party).announced, sequence);
}

// Whether nobody needs the descriptor in whose place this call's will lie: not the leader's kernel,
// nor a process that has still to compare it with its own.
bool ProcessTeam::has_room(std::uint64_t sequence) const {
  if (HostAtomics::load_acquire(board_->words().consumed) < led_[sequence % kPlainDescriptors])
    return false;
  for (int p = 0; p < board_->parties(); ++p)
    if (HostAtomics::load_acquire(board_->party(p).announced) + kPlainDescriptors < sequence)
      return false;
  return true;
}

Done ProcessTeam::wait_for_room(std::uint64_t sequence) {
  while (!has_room(sequence)) {
    RONDO_CHECK_OK(standing());
    std::this_thread::sleep_for(kNap);
  }
  return done();
}

Result<cuda::CallDescriptor> ProcessTeam::describe(const Enqueued& call, int rank,
                                                   const Side& side) {
  cuda::CallDescriptor made{};
  made.record = call.record;
  made.scalar = side.scalar;
  const std::size_t bytes = call.record.count * size_of(call.record.type);
  const cuda::CallStep whole{-1, 0, call.record.count};
  const auto find = [&](const void* pointer, std::size_t size) -> Result<std::uint64_t> {
    if (const auto known = desk_->known_in_leader(pointer, size)) return *known;
    return desk_->in_leader(pointer, size, patience());
  };
  if (call.steps.sends(rank)) {
    RONDO_TRY(made.send, find(side.send, call.steps.segments_sent() * bytes));
    if (made.send == 0) made.flags |= cuda::CallDescriptor::kSendStaged;
  }
  if (call.steps.receives(rank, whole)) {
    RONDO_TRY(made.receive, find(side.receive, call.steps.segments_received() * bytes));
    if (made.receive == 0) made.flags |= cuda::CallDescriptor::kReceiveStaged;
  }
  if (side.late_scalar) made.flags |= cuda::CallDescriptor::kLateScalar;
  const bool scalar_moves = side.late_scalar && !leads();
  if (staging_ == nullptr && (scalar_moves || made.flags != 0) && !leads()) {
    RONDO_TRY(staging_, desk_->area(MemoryDesk::kStaging, patience()));
  }
  if (scalar_moves) {
    made.scalar = HostAtomics::load_acquire(board_->words().staging) + desk_->scalar_at(rank);
    RONDO_CHECK_OK(copy_scalar(rank, side, call));
  }
  return made;
}

// A factor that lies in this process's device memory, to where the leader's kernel reads it.
Done ProcessTeam::copy_scalar(int rank, const Side& side, const Enqueued& call) {
  DirectLaunches copies(api_, seats_.most_ctas, call.stream);
  RONDO_CHECK_OK(copies.copy(reinterpret_cast<const void*>(side.scalar),
                             staging_ + desk_->scalar_at(rank), size_of(call.record.type)));
  return copies.flush();
}

// A plain call's descriptor takes its turn in the ring; captured ones stay, equal ones are shared.
Result<std::uint32_t> ProcessTeam::place(int rank, const cuda::CallDescriptor& made) {
  std::uint32_t index = static_cast<std::uint32_t>(made.sequence % kPlainDescriptors);
  if (made.sequence == 0) {
    const auto same = [&](const cuda::CallDescriptor& other) {
      return other.record == made.record && other.send == made.send &&
             other.receive == made.receive && other.scalar == made.scalar &&
             other.flags == made.flags;
    };
    for (index = kPlainDescriptors; index < captured_[rank]; ++index)
      if (same(board_->descriptor(rank, index))) return index;
    if (index == board_->depth())
      return fail(Status::kInvalidUsage,
                  "rank {} has captured {} different calls into graphs, the most that ranks on a "
                  "shared GPU can: capture calls on the same buffers, or use another communicator",
                  rank, index - kPlainDescriptors);
    ++captured_[rank];
  }
  cuda::CallDescriptor& at = board_->descriptor(rank, index);
  at.send = made.send;
  at.receive = made.receive;
  at.scalar = made.scalar;
  at.flags = made.flags;
  store_record(at.record, made.record);
  HostAtomics::store_seq_cst(at.sequence, made.sequence);
  return index;
}

// With the ranks that have made this call already; those that come later compare themselves.
Done ProcessTeam::compare(std::uint64_t sequence, const CallRecord& record, Mismatch* mismatch) {
  HostAtomics::fence_seq_cst();
  for (int r = 0; r < ranks(); ++r) {
    if (is_local(r)) continue;
    const cuda::CallDescriptor& theirs =
        board_->descriptor(r, static_cast<std::uint32_t>(sequence % kPlainDescriptors));
    if (HostAtomics::load_acquire(theirs.sequence) != sequence) continue;
    const CallRecord other = load_record(theirs.record);
    if (other == record) continue;
    *mismatch = {r, record, other,
                 fault_texts::different_calls(sequence, local_[0], record, r, other)};
    return fail(Status::kInvalidUsage, "{}", mismatch->text);
  }
  return done();
}

Done ProcessTeam::finish(int rank, GpuStream stream, bool capturing) {
  const auto index = std::find(local_.begin(), local_.end(), rank) - local_.begin();
  return check(api_.record_event(finished_[static_cast<std::size_t>(index)], stream,
                                 capturing ? GpuEventUse::kExternal : GpuEventUse::kPlain),
               "cudaEventRecord");
}

// ---- the others' side ----

Done ProcessTeam::follow(const Enqueued& call) {
  PartyLines& mine = board_->party(seats_.party);
  const auto steps = static_cast<std::uint32_t>(call.steps.size());
  if (!call.staged) {
    RONDO_CHECK_OK(write(call.stream, mine.ready, steps));
    RONDO_CHECK_OK(await(call.stream, mine.done, steps, GpuWait::kGreaterOrEqual));
    return write(call.stream, mine.done, 0);
  }
  RONDO_CHECK_OK(copy_step(call, 0, true));
  RONDO_CHECK_OK(write(call.stream, mine.ready, 1));
  for (std::uint32_t j = 0; j < steps; ++j) {
    if (j + 1 < steps) {
      // Its half of staging is free: step j - 1 was copied out before.
      RONDO_CHECK_OK(copy_step(call, j + 1, true));
      RONDO_CHECK_OK(write(call.stream, mine.ready, j + 2));
    }
    RONDO_CHECK_OK(await(call.stream, mine.done, j + 1, GpuWait::kGreaterOrEqual));
    // From here on this process needs nobody.
    if (j + 1 == steps) RONDO_CHECK_OK(write(call.stream, mine.done, 0));
    RONDO_CHECK_OK(copy_step(call, j, false));
  }
  return done();
}

// Between the user's buffers and staging: a step's input or its output.
Done ProcessTeam::copy_step(const Enqueued& call, std::uint64_t number, bool in) {
  const cuda::CallStep step = call.steps[number];
  const std::uint64_t width = size_of(call.record.type), bytes = step.count * width;
  if (bytes == 0) return done();
  const int segments = in ? call.steps.segments_sent() : call.steps.segments_received();
  DirectLaunches copies(api_, seats_.most_ctas, call.stream);
  for (std::size_t i = 0; i < local_.size(); ++i) {
    const int rank = local_[i];
    const auto flag = in ? cuda::CallDescriptor::kSendStaged : cuda::CallDescriptor::kReceiveStaged;
    if ((call.flags[i] & flag) == 0 || (!in && !call.steps.receives(rank, step))) continue;
    const int owner = cuda::output_is_shared(call.record.collective) ? 0 : rank;
    std::byte* const staged =
        staging_ + (in ? shape_.input(rank, number) : shape_.output(owner, number));
    for (int k = 0; k < segments; ++k) {
      const bool one = in && step.segment >= 0;
      if (one && k != step.segment) continue;
      const std::uint64_t at =
          (static_cast<std::uint64_t>(k) * call.record.count + step.begin) * width;
      std::byte* const packed = staged + (one ? 0 : static_cast<std::uint64_t>(k) * bytes);
      if (in) {
        const auto* const user = static_cast<const std::byte*>(call.sides[i].send);
        RONDO_CHECK_OK(copies.copy(user + at, packed, bytes));
      } else {
        auto* const user = static_cast<std::byte*>(call.sides[i].receive);
        RONDO_CHECK_OK(copies.copy(packed, user + at, bytes));
      }
    }
  }
  return copies.flush();
}

}  // namespace rondo::gpu
