#include "collectives/gpu/staging/hosted_rank.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/atomics.h"
#include "base/env.h"
#include "base/log.h"
#include "base/poll_until.h"
#include "base/process.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/watchdog/fault_texts.h"
#include "transport/cuda/device.h"
#include "transport/cuda/shared_memory.h"

namespace rondo::gpu {
namespace {

constexpr std::uint64_t kMostPinned = 16 << 20;
constexpr std::uint64_t kLeastPinned = 64 << 10;
constexpr std::size_t kMostCaptured = 65536;  // different calls in graphs
constexpr double kPatientSeconds = 10;
constexpr double kWarnSeconds = 60;
constexpr auto kNap = std::chrono::microseconds(50);

}  // namespace

std::uint64_t HostedRank::wanted_bytes() {
  const auto asked = static_cast<std::uint64_t>(
      std::max<std::int64_t>(env::get_int("RONDO_GPU_STAGING"), kLeastPinned));
  return std::min(asked, kMostPinned) / kLeastPinned * kLeastPinned;
}

Result<std::unique_ptr<HostedRank>> HostedRank::make(std::shared_ptr<Communicator> twin,
                                                     const Terms& terms,
                                                     std::function<void(Fault)> raise) {
  std::unique_ptr<HostedRank> made(new HostedRank(std::move(twin), terms, std::move(raise)));
  RONDO_CHECK_OK(made->open());
  return made;
}

HostedRank::HostedRank(std::shared_ptr<Communicator> twin, const Terms& terms,
                       std::function<void(Fault)> raise)
    : api_(*gpu_api()),
      twin_(std::move(twin)),
      device_(terms.device),
      limit_seconds_(terms.limit_seconds),
      shape_{terms.bytes},
      raise_(std::move(raise)),
      made_in_(fork_generation()),
      descriptors_(kAhead) {}

Done HostedRank::open() {
  const DeviceScope scope(device_);
  RONDO_CHECK_OK(scope.entered());
  const std::size_t bytes = shape_.rank_bytes + sizeof(HostedWords);
  RONDO_CHECK_OK(check(api_.allocate_host(&pinned_, bytes, kHostPortable | kHostMapped),
                       "cudaHostAlloc for calls through the host"));
  memory_ = static_cast<std::byte*>(pinned_);
  words_ = new (memory_ + shape_.rank_bytes) HostedWords{};
  void* at = nullptr;
  RONDO_CHECK_OK(check(api_.host_device_pointer(&at, pinned_), "cudaHostGetDevicePointer"));
  on_device_ = static_cast<std::byte*>(at);
  RONDO_CHECK_OK(order_.open());
  RONDO_INFO(kInit, "rank {}: calls pass through {} bytes of pinned memory and the host's links",
             twin_->rank(), shape_.rank_bytes);
  RONDO_TRY(thread_, Thread::start(
                         "calls through the host", [this] { serve(); }, [](const Error&) {}));
  return done();
}

HostedRank::~HostedRank() {
  if (made_in_ != fork_generation()) {
    if (thread_.joinable()) thread_.detach();
    (void)kernels_.release();  // its thread, too, is the parent's
    return;
  }
  const auto drained = [&](double seconds) {
    return poll_until([&] { return order_.is_over(); }, seconds_from_now(seconds));
  };
  bool over = thread_.joinable() ? drained(kPatientSeconds) : true;
  if (!over) {
    Fault left;
    left.status = Status::kRemoteError;
    left.rank = left.culprit = twin_->rank();
    left.text = fault_texts::left_early(left.rank);
    end(left);
    over = drained(kPatientSeconds / 2);
  }
  if (kernels_ && !over) kernels_->leak();
  stop_ = true;
  posted_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (pinned_ != nullptr && over) api_.free_host(pinned_);
}

void HostedRank::end(const Fault& fault) {
  if (kernels_) kernels_->end(fault);
  end();
}

void HostedRank::end() {
  if (ended_.exchange(true)) return;
  twin_->abort();
  posted_.notify_all();
}

std::uint64_t HostedRank::piece_bytes() const {
  constexpr std::uint64_t kRound = 64;
  return shape_.quarter() / static_cast<std::uint64_t>(twin_->size()) / kRound * kRound;
}

bool HostedRank::Descriptor::same_as(const Descriptor& other) const {
  return record == other.record && scalar == other.scalar && late_scalar == other.late_scalar &&
         std::equal(lanes.begin(), lanes.end(), other.lanes.begin(), other.lanes.end(),
                    [](const Lane& a, const Lane& b) { return a.same_as(b); }) &&
         same_signals(signals, other.signals) && same_signals(waits, other.waits);
}

Done HostedRank::write(GpuStream stream, std::uint32_t& word, std::uint32_t value) {
  auto* const at = on_device_ + (reinterpret_cast<std::byte*>(&word) - memory_);
  return check(api_.stream_write32(stream, at, value),
               "cuStreamWriteValue32 (calls through the host need stream memory operations)");
}

Done HostedRank::await(GpuStream stream, std::uint32_t& word, std::uint32_t at_least) {
  auto* const at = on_device_ + (reinterpret_cast<std::byte*>(&word) - memory_);
  return check(api_.stream_wait32(stream, at, at_least, GpuWait::kGreaterOrEqual),
               "cuStreamWaitValue32 (calls through the host need stream memory operations)");
}

Result<std::uint32_t> HostedRank::place(Descriptor made, bool in_capture) {
  std::unique_lock lock(mutex_);
  if (in_capture) {
    for (std::size_t i = kAhead; i < descriptors_.size(); ++i)
      if (descriptors_[i].same_as(made)) return static_cast<std::uint32_t>(i);
    if (descriptors_.size() - kAhead >= kMostCaptured)
      return fail(Status::kInvalidUsage,
                  "rank {} has captured {} different calls into graphs, the most that ranks whose "
                  "calls pass through the host can",
                  twin_->rank(), descriptors_.size() - kAhead);
    descriptors_.push_back(std::move(made));
    return static_cast<std::uint32_t>(descriptors_.size() - 1);
  }
  RONDO_CHECK_OK(wait_for_room(lock));
  const std::size_t index = plain_++ % kAhead;
  descriptors_[index] = std::move(made);
  return static_cast<std::uint32_t>(index);
}

// Until this rank is less than kAhead calls ahead of its stream. Limits count from the newest of
// them that ended.
Done HostedRank::wait_for_room(std::unique_lock<std::mutex>& lock) {
  using Clock = std::chrono::steady_clock;
  std::uint64_t seen = 0;
  auto begin = Clock::now();
  bool warned = false;
  for (std::uint64_t served; (served = served_.load(std::memory_order_acquire)) + kAhead <= plain_;
       seen = served) {
    if (ended_) return fail(Status::kInvalidUsage, "the communicator has ended");
    if (served != seen) begin = Clock::now();
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    if (limit_seconds_ > 0 && waited > limit_seconds_)
      return fail(Status::kTimeout, "{}",
                  fault_texts::timed_out_ahead(twin_->rank(), limit_seconds_, kAhead));
    if (waited > kWarnSeconds && !warned) {
      warned = true;
      RONDO_WARN("rank {} is {} calls ahead of its stream, where none has ended for {} s; it waits",
                 twin_->rank(), kAhead, kWarnSeconds);
    }
    lock.unlock();
    std::this_thread::sleep_for(kNap);
    lock.lock();
  }
  return done();
}

Done HostedRank::enqueue(GpuStream stream, Descriptor descriptor, std::uint64_t steps,
                         const CopyStep& copy) {
  GpuCaptureInfo capture;
  RONDO_CHECK_OK(check(api_.capture_info(stream, &capture), "cudaStreamGetCaptureInfo"));
  RONDO_TRY(const std::uint32_t index, place(std::move(descriptor), capturing(capture)));
  RONDO_CHECK_OK(order_.wait(stream, capture));
  struct Enqueuer {
    HostedRank& rank;
    const GpuStream stream;
    const CopyStep& copy;
    Done write(std::uint32_t& word, std::uint32_t value) const {
      return rank.write(stream, word, value);
    }
    Done wait(std::uint32_t& word, std::uint32_t at_least) const {
      return rank.await(stream, word, at_least);
    }
  };
  RONDO_CHECK_OK(enqueue_steps(*words_, index + 1, static_cast<std::uint32_t>(steps),
                               Enqueuer{*this, stream, copy}));
  RONDO_CHECK_OK(order_.end(stream, capture));
  posted_.notify_one();
  return done();
}

Done HostedRank::post(std::span<const DeviceCall> calls) {
  bool messages = false;
  for (const DeviceCall& call : calls) {
    const Collective which = call.record.collective;
    if (which == Collective::kSend || which == Collective::kRecv) {
      messages = true;
    } else {
      RONDO_CHECK_OK(post_collective(call));
    }
  }
  return messages ? post_messages(calls) : done();
}

Done HostedRank::launch_kernel(const DevicePlan& plan, const DeviceCall& call) {
  GpuCaptureInfo capture;
  RONDO_CHECK_OK(check(api_.capture_info(call.stream, &capture), "cudaStreamGetCaptureInfo"));
  RONDO_CHECK_OK(order_.wait(call.stream, capture));
  RONDO_CHECK_OK(kernels_->launch(plan, call));
  return order_.end(call.stream, capture);
}

Done HostedRank::post_collective(const DeviceCall& call) {
  const CallRecord& record = call.record;
  if (kernels_) {
    GpuCaptureInfo capture;
    RONDO_CHECK_OK(check(api_.capture_info(call.stream, &capture), "cudaStreamGetCaptureInfo"));
    if (!capturing(capture)) RONDO_CHECK_OK(kernels_->announce(record));
    if (const auto plan = kernels_->plan(record)) return launch_kernel(*plan, call);
  }
  const CallSteps steps(record, twin_->size(), shape_);
  const std::uint64_t width = size_of(record.type);
  Descriptor descriptor;
  descriptor.record = record;
  descriptor.scalar = call.side.late_scalar ? 0 : call.side.scalar;
  descriptor.late_scalar = call.side.late_scalar;
  const auto copy = [&](std::uint64_t number, bool in) -> Done {
    const cuda::CallStep step = steps[number];
    const std::uint64_t bytes = step.count * width;
    if (number == 0 && in && call.side.late_scalar)
      RONDO_CHECK_OK(
          check(api_.copy(&words_->scalar, reinterpret_cast<const void*>(call.side.scalar), width,
                          GpuCopy::kAny, call.stream),
                "cudaMemcpyAsync"));
    const bool takes_part = in ? steps.sends(twin_->rank()) : steps.receives(twin_->rank(), step);
    if (bytes == 0 || !takes_part) return done();
    DirectLaunches copies(api_, 1, call.stream);
    copies.copy_by_driver();
    const int segments = in ? steps.segments_sent() : steps.segments_received();
    for (int k = 0; k < segments; ++k) {
      const bool one = in && step.segment >= 0;
      if (one && k != step.segment) continue;
      const std::uint64_t at = (static_cast<std::uint64_t>(k) * record.count + step.begin) * width;
      const std::uint64_t packed = one ? 0 : static_cast<std::uint64_t>(k) * bytes;
      RONDO_CHECK_OK(in ? copies.copy(static_cast<const std::byte*>(call.side.send) + at,
                                      input(number) + packed, bytes)
                        : copies.copy(output(number) + packed,
                                      static_cast<std::byte*>(call.side.receive) + at, bytes));
    }
    return copies.flush();
  };
  return enqueue(call.stream, std::move(descriptor), steps.size(), copy);
}

Done HostedRank::post_messages(std::span<const DeviceCall> calls) {
  Descriptor descriptor;
  GpuStream stream = nullptr;
  bool first = true;
  std::vector<GpuStream> others;
  for (const DeviceCall& call : calls) {
    const bool sends = call.record.collective == Collective::kSend;
    if (!sends && call.record.collective != Collective::kRecv) continue;
    if (first) stream = call.stream;
    first = false;
    if (!same_stream(call.stream, stream)) others.push_back(call.stream);
    auto& lanes = descriptor.lanes;
    auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const Lane& one) {
      return one.peer == call.peer && one.sends == sends;
    });
    if (lane == lanes.end()) lane = lanes.insert(lanes.end(), {call.peer, sends, {}, {}});
    auto* const user =
        static_cast<std::byte*>(sends ? const_cast<void*>(call.side.send) : call.side.receive);
    const std::uint64_t bytes = call.record.count * size_of(call.record.type);
    for (std::uint64_t at = 0; at == 0 || at < bytes; at += piece_bytes()) {
      lane->pieces.push_back(std::min(piece_bytes(), bytes - at));
      lane->at.push_back(user + at);
    }
  }
  std::size_t rounds = 1;
  for (const Lane& lane : descriptor.lanes) rounds = std::max(rounds, lane.pieces.size());
  RONDO_CHECK_OK(join_before(stream, others));
  const std::vector<Lane> lanes = descriptor.lanes;
  const auto copy = [&](std::uint64_t round, bool in) -> Done {
    DirectLaunches copies(api_, 1, stream);
    copies.copy_by_driver();
    for (const Lane& lane : lanes) {
      if (lane.sends != in || round >= lane.pieces.size() || lane.pieces[round] == 0) continue;
      std::byte* const staged = (in ? input(round) : output(round)) +
                                static_cast<std::uint64_t>(lane.peer) * piece_bytes();
      RONDO_CHECK_OK(in ? copies.copy(lane.at[round], staged, lane.pieces[round])
                        : copies.copy(staged, lane.at[round], lane.pieces[round]));
    }
    return copies.flush();
  };
  RONDO_CHECK_OK(enqueue(stream, std::move(descriptor), rounds, copy));
  return join_after(others);
}

Done HostedRank::join_before(GpuStream stream, std::span<const GpuStream> others) {
  for (GpuStream other : others) {
    GpuEvent here = nullptr;
    RONDO_CHECK_OK(check(api_.create_event(&here, kEventPlain), "cudaEventCreate"));
    GpuError error = api_.record_event(here, other, GpuEventUse::kPlain);
    if (error == kGpuSuccess) error = api_.stream_wait_event(stream, here, GpuEventUse::kPlain);
    api_.destroy_event(here);
    RONDO_CHECK_OK(check(error, "cudaStreamWaitEvent"));
  }
  return done();
}

Done HostedRank::join_after(std::span<const GpuStream> others) {
  for (GpuStream other : others) {
    GpuCaptureInfo capture;
    RONDO_CHECK_OK(check(api_.capture_info(other, &capture), "cudaStreamGetCaptureInfo"));
    RONDO_CHECK_OK(order_.wait(other, capture));
  }
  return done();
}

}  // namespace rondo::gpu
