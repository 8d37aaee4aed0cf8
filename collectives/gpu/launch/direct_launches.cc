// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/launch/direct_launches.h"

#include <algorithm>
#include <cassert>

#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

// Bytes of one buffer that keep a thread busy: 4 vectors of 16 bytes.
constexpr std::uint64_t kBytesPerThread = 64;
constexpr unsigned kWarp = 32;
constexpr unsigned whole_warps(std::uint64_t threads) {
  return static_cast<unsigned>((threads + kWarp - 1) / kWarp * kWarp);
}
// Of a CTA that meets those of other devices: a thread each.
constexpr unsigned min_threads(int devices) {
  return whole_warps(static_cast<std::uint64_t>(devices));
}
static_assert(min_threads(cuda::kMaxSharingDevices) <= cuda::kDirectHeavyThreads);

const void* at(const void* pointer, std::uint64_t bytes) {
  return static_cast<const std::byte*>(pointer) + bytes;
}
void* at(void* pointer, std::uint64_t bytes) { return static_cast<std::byte*>(pointer) + bytes; }

unsigned threads_of(const CallRecord& record) {
  return cuda::is_heavy(record.type, record.op) ? cuda::kDirectHeavyThreads : cuda::kDirectThreads;
}

}  // namespace

Buffers buffers_of(const Call& call) {
  Buffers buffers{call.send,         call.receive,        0, call.late_scalar != nullptr,
                  call.send_windows, call.receive_windows};
  if (buffers.late_scalar)
    buffers.scalar = reinterpret_cast<std::uintptr_t>(call.late_scalar);
  else
    std::memcpy(&buffers.scalar, call.scalar.data(), sizeof(buffers.scalar));
  return buffers;
}

Result<int> max_direct_ctas(int device) {
  int multiprocessors = 0;
  RONDO_CHECK_OK(
      check(gpu_api()->attribute(&multiprocessors, GpuAttribute::kMultiprocessors, device),
            "cuDeviceGetAttribute"));
  return multiprocessors * cuda::kDirectCtas;
}

DirectLaunches::DirectLaunches(int max_ctas, GpuStream stream)
    : max_ctas_(max_ctas), stream_(stream) {
  copies_.items = copies_.all_targets = 0;
  copies_.calls = 0;
  reductions_.calls = 0;
  reductions_.late_scalars = 0;
}

std::uint64_t DirectLaunches::max_ctas() const {
  return static_cast<std::uint64_t>(meets() ? std::min(max_ctas_, cuda::kBarrierCtas) : max_ctas_);
}

DirectLaunches::Shape DirectLaunches::shape_of(unsigned threads, std::uint64_t bytes,
                                               int parts) const {
  const auto devices = static_cast<std::uint64_t>(barrier_.devices);
  const std::uint64_t wanted = std::max<std::uint64_t>(bytes / kBytesPerThread / devices, 1);
  const unsigned minimum = min_threads(barrier_.devices);
  const unsigned block = std::clamp(whole_warps(std::min<std::uint64_t>(wanted, threads)), minimum,
                                    std::max(minimum, threads));
  return {block, (wanted + block - 1) / block * static_cast<std::uint64_t>(parts)};
}

Status DirectLaunches::launch(int kernel, const Shape& shape, const void* arguments,
                              std::size_t size) {
  GpuLaunch launch;
  launch.kernel = kernel;
  launch.block = shape.block;
  launch.grid = static_cast<unsigned>(std::clamp<std::uint64_t>(shape.ctas, 1, max_ctas()));
  // Messages also copy to other devices; fences of the program's kernels do not have to wait for
  // that. Not cooperative: CTAs wait for CTAs of other devices, never for each other.
  launch.remote_domain = true;
  launch.shared_bytes = meets() ? cuda::kBarrierShared : 0;
  launch.arguments = arguments;
  launch.argument_bytes = size;
  const bool tries = device_ < 0 || (is_current_ != nullptr && *is_current_);
  GpuError launched = tries ? gpu_api()->launch(launch, stream_) : kGpuInvalidHandle;
  if (device_ >= 0 && launched == kGpuInvalidHandle) {
    if (is_current_ != nullptr) *is_current_ = false;
    const DeviceScope scope(device_);
    RONDO_CHECK_OK(scope.entered());
    launched = gpu_api()->launch(launch, stream_);
  }
  return check(launched, "a kernel launch");
}

// The call runs on the first CTAs and threads of the launch, which is as wide as its widest call.
cuda::ListedCall DirectLaunches::listed(const CallRecord& record, const Shape& shape,
                                        int end_item) {
  const std::uint64_t ctas = std::clamp<std::uint64_t>(shape.ctas, 1, max_ctas());
  widest_ = {std::max(widest_.block, shape.block), std::max(widest_.ctas, ctas)};
  return {record, static_cast<std::uint16_t>(ctas), static_cast<std::uint16_t>(shape.block),
          static_cast<std::uint16_t>(end_item)};
}

// A part is rounded up to whole lines; each slice has room for that beside its share of `staging`.
DirectLaunches::StagedShape DirectLaunches::staged_shape(const Slices& slices, unsigned threads,
                                                         int blocks, std::uint64_t units,
                                                         std::uint64_t width) {
  constexpr std::uint64_t kLine = 128;
  const auto share = [](std::uint64_t all, std::uint64_t parts) {
    return (all + parts - 1) / parts;
  };
  const auto maximum = static_cast<std::uint64_t>(slices.ctas);
  const std::uint64_t bytes = units * width * static_cast<std::uint64_t>(blocks);
  const std::uint64_t wanted =
      std::max(share(bytes, threads * kBytesPerThread), share(bytes * maximum, slices.staging));
  std::uint64_t ctas = std::clamp<std::uint64_t>(wanted, 1, maximum);
  const std::uint64_t grain = kLine / width;
  const std::uint64_t part = share(share(units, ctas), grain) * grain;
  if (units > 0) ctas = share(units, part);
  const std::uint64_t of_cta = share(bytes, ctas * kBytesPerThread * kWarp) * kWarp;
  return {static_cast<unsigned>(
              std::clamp<std::uint64_t>(of_cta, min_threads(slices.devices), threads)),
          ctas, part};
}

// CTAs are divided equally among all segments of all calls: a call that fills the device alone
// would lose most of it to shorter ones. Calls that meet one by one get the CTAs one after another.
bool DirectLaunches::joins(const Kind& kind, std::uint64_t bytes) const {
  const int calls = reductions_.calls + 1;
  if (calls == 1 || kind != kind_ || calls > cuda::kMaxReductions) return false;
  if (calls * std::max(kind.sources, kind.targets) > cuda::kMaxDirectRanks) return false;
  if (meets()) return true;
  const std::uint64_t ctas = shape_of(kind.threads, std::max(longest_, bytes), 1).ctas;
  return ctas == 1 || ctas * static_cast<std::uint64_t>(calls * kind.segments()) <= max_ctas();
}

Status DirectLaunches::staged_reduction(const CallRecord& record, const Piece& piece,
                                        std::span<const Buffers> buffers, const Buffers& own,
                                        const Slices& slices) {
  assert(piece.begin + piece.count <= record.count);
  RONDO_CHECK_OK(reduce(record, piece.count, buffers, &slices));
  const int k = reductions_.calls - 1;
  cuda::StagedCall& staged = reductions_.staged[k];
  const std::uint64_t begin = piece.begin * size_of(record.type);
  staged.send = own.send == nullptr ? nullptr : at(own.send, begin);
  staged.receive = own.receive == nullptr ? nullptr : at(own.receive, begin);
  reductions_.own_step[k] = record.count;
  return ok_status();
}

// count: elements of each block that are reduced; the record is that of the call.
Status DirectLaunches::reduce(const CallRecord& record, std::uint64_t count,
                              std::span<const Buffers> buffers, const Slices* slices) {
  const int n = static_cast<int>(buffers.size());
  const bool to_root = record.collective == Collective::kReduce;
  const int kernel = n > cuda::kNarrowRanks ? cuda::wide_direct_kernel(record.type, record.op)
                                            : cuda::direct_kernel(record.type, record.op);
  const Kind kind{kernel, threads_of(record), n, to_root ? 1 : n,
                  record.collective == Collective::kReduceScatter};
  const std::uint64_t bytes = count * size_of(record.type);
  cuda::ReduceArgs& args = reductions_;
  if (meets() && copies_.items > 0) RONDO_CHECK_OK(flush());  // calls meet in order
  if (!joins(kind, bytes)) {
    RONDO_CHECK_OK(flush_reductions());
    kind_ = kind;
    args.sources = args.ranks = n;
    args.targets = kind.targets;
    args.segments = kind.segments();
    args.scattered = kind.scattered;
    args.barrier = barrier_;
    args.slice = slices == nullptr ? 0 : slices->bytes / size_of(record.type);
  }
  const int first = args.calls * n;
  for (int r = 0; r < n; ++r) {
    args.input[first + r] = buffers[r].send;
    if (record.op == RedOp::kPreMulSum) {
      assert(first + r < cuda::kMaxDirectRanks && "of one device");
      args.scalar[first + r] = buffers[r].scalar;
      args.late_scalars |= static_cast<std::uint64_t>(buffers[r].late_scalar) << (first + r);
    }
    if (!to_root) args.output[first + r] = buffers[r].receive;
  }
  if (to_root) args.output[args.calls] = buffers[record.root].receive;
  if (slices != nullptr) {
    const StagedShape shape =
        staged_shape(*slices, kind.threads, kind.segments(), count, size_of(record.type));
    args.staged[args.calls].part = shape.part;
    args.listed[args.calls] = listed(record, {shape.block, shape.ctas}, 0);
  } else if (meets()) {
    args.listed[args.calls] = listed(record, shape_of(kind.threads, bytes, kind.segments()), 0);
  }
  args.count[args.calls++] = count;
  longest_ = std::max(longest_, bytes);
  return ok_status();
}

Status DirectLaunches::flush_reductions() {
  if (reductions_.calls == 0) return ok_status();
  const Shape shape =
      meets() ? widest_ : shape_of(kind_.threads, longest_, reductions_.calls * kind_.segments());
  Status launched = launch(kind_.kernel, shape, &reductions_, sizeof(reductions_));
  widest_ = {0, 0};
  reductions_.calls = 0;
  reductions_.late_scalars = longest_ = 0;
  return launched;
}

// The kernel of all other operations waits for each element that a thread reads, 1 to 2 us if it
// is in host memory, so it gets a thread an element.
Status DirectLaunches::stored_reduce(const CallRecord& record, const void* arguments, int kinds) {
  const cuda::Stored<cuda::ReduceArgs> stored{static_cast<const cuda::ReduceArgs*>(arguments)};
  const auto threads = static_cast<unsigned>(cuda::stored_threads(record.type, record.op));
  const bool by_vectors = cuda::has_sum_kernel(record.type, record.op);
  const std::uint64_t width = by_vectors ? size_of(record.type) : kBytesPerThread;
  return launch(cuda::stored_kernel(record.type, record.op),
                shape_of(threads, record.count * width, kinds), &stored, sizeof(stored));
}

Status DirectLaunches::stored_copy(std::uint64_t bytes, const void* arguments, int kinds) {
  const cuda::Stored<cuda::CopyArgs> stored{static_cast<const cuda::CopyArgs*>(arguments)};
  return launch(cuda::kStoredCopyKernel, shape_of(cuda::kDirectThreads, bytes, kinds), &stored,
                sizeof(stored));
}

Status DirectLaunches::begin_item(const void* from, std::uint64_t bytes) {
  if (copies_.items == cuda::kMaxCopies) RONDO_CHECK_OK(flush());
  if (copies_.items == 0) copies_.barrier = barrier_;
  copies_.item[copies_.items++] = {from, bytes, static_cast<std::uint32_t>(copies_.all_targets), 0};
  return ok_status();
}

Status DirectLaunches::add_target(void* to) {
  const cuda::CopyArgs::Item item = copies_.item[copies_.items - 1];
  if (item.from == to || item.bytes == 0) return ok_status();
  if (by_driver_)
    return check(gpu_api()->copy(to, item.from, item.bytes, *by_driver_, stream_),
                 "cudaMemcpyAsync");
  if (copies_.all_targets == cuda::kMaxCopyTargets) {
    RONDO_CHECK_OK(flush());
    RONDO_CHECK_OK(begin_item(item.from, item.bytes));
  }
  copies_.target[copies_.all_targets++] = to;
  ++copies_.item[copies_.items - 1].targets;
  return ok_status();
}

Status DirectLaunches::copy(const void* from, void* to, std::uint64_t bytes) {
  RONDO_CHECK_OK(begin_item(from, bytes));
  return add_target(to);
}

std::uint64_t DirectLaunches::drop_empty_items(int first) {
  std::uint64_t longest = 0;
  int kept = first;
  for (int i = first; i < copies_.items; ++i) {
    if (copies_.item[i].targets == 0) continue;
    longest = std::max(longest, copies_.item[i].bytes);
    copies_.item[kept++] = copies_.item[i];
  }
  copies_.items = kept;
  return longest;
}

// Joins the pending launch only if the whole call fits: no call meets twice.
Status DirectLaunches::begin_listed_copy(const CallRecord& record, int ranks) {
  RONDO_CHECK_OK(flush_reductions());  // calls meet in order
  const int blocks = record.collective == Collective::kAllToAll ? ranks * ranks : ranks;
  const bool has_room = copies_.calls < cuda::kMaxListedCopies &&
                        copies_.items + blocks <= cuda::kMaxCopies &&
                        copies_.all_targets + ranks * ranks <= cuda::kMaxCopyTargets;
  return has_room ? ok_status() : flush();
}

void DirectLaunches::end_listed_copy(const CallRecord& record, int first) {
  const std::uint64_t longest = drop_empty_items(first);
  const int items = copies_.items - first;
  if (items == 0) return;
  copies_.listed[copies_.calls++] =
      listed(record, shape_of(cuda::kDirectThreads, longest, items), copies_.items);
}

Status DirectLaunches::flush() {
  RONDO_CHECK_OK(flush_reductions());
  const std::uint64_t longest = drop_empty_items(0);
  const Shape shape = meets() ? widest_ : shape_of(cuda::kDirectThreads, longest, copies_.items);
  Status launched = ok_status();
  if (copies_.items > 0) launched = launch(cuda::kCopyKernel, shape, &copies_, sizeof(copies_));
  copies_.items = copies_.all_targets = 0;
  copies_.calls = 0;
  widest_ = {0, 0};
  return launched;
}

Status DirectLaunches::collective(const CallRecord& record, std::span<const Buffers> buffers) {
  const int n = static_cast<int>(buffers.size());
  if (record.count == 0 || record.collective == Collective::kBarrier) return ok_status();
  if (reduces(record.collective) && (n > 1 || record.op == RedOp::kPreMulSum))
    return reduce(record, record.count, buffers);
  if (meets()) RONDO_CHECK_OK(begin_listed_copy(record, n));
  const int first = copies_.items;
  RONDO_CHECK_OK(copy_all(record, buffers));
  if (meets()) end_listed_copy(record, first);
  return ok_status();
}

Status DirectLaunches::copy_all(const CallRecord& record, std::span<const Buffers> buffers) {
  const int n = static_cast<int>(buffers.size());
  const std::uint64_t bytes = record.count * size_of(record.type);
  const auto copy_to_all = [&](int from, std::uint64_t to_offset) -> Status {
    RONDO_CHECK_OK(begin_item(buffers[from].send, bytes));
    for (const Buffers& buffers : buffers)
      RONDO_CHECK_OK(add_target(at(buffers.receive, to_offset)));
    return ok_status();
  };
  switch (record.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kReduceScatter:  // of one rank
      return copy(buffers[0].send, buffers[0].receive, bytes);
    case Collective::kBroadcast:
      return copy_to_all(record.root, 0);
    case Collective::kAllGather:
      for (int r = 0; r < n; ++r) RONDO_CHECK_OK(copy_to_all(r, r * bytes));
      return ok_status();
    case Collective::kAllToAll:
      for (int s = 0; s < n; ++s)
        for (int t = 0; t < n; ++t)
          RONDO_CHECK_OK(
              copy(at(buffers[s].send, t * bytes), at(buffers[t].receive, s * bytes), bytes));
      return ok_status();
    case Collective::kGather:
      for (int r = 0; r < n; ++r)
        RONDO_CHECK_OK(copy(buffers[r].send, at(buffers[record.root].receive, r * bytes), bytes));
      return ok_status();
    case Collective::kScatter:
      for (int r = 0; r < n; ++r)
        RONDO_CHECK_OK(copy(at(buffers[record.root].send, r * bytes), buffers[r].receive, bytes));
      return ok_status();
    default:
      return fail(StatusCode::kInternalError, "{} is no collective of a device",
                  name(record.collective));
  }
}

}  // namespace rondo::gpu
