// SPDX-License-Identifier: Apache-2.0
// The direct kernels on the emulated device: every (type, op), 1 to 8 ranks, odd sizes and offsets,
// in place and out of place, against the reference; bytes around the outputs must not change.
#include <algorithm>
#include <cstring>

#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/kernels.h"
#include "kernels/reduce.h"
#include "tests/simt/device_fixture.h"
#include "tests/simt/rounds.h"
#include "tests/support/reference.h"

namespace rondo::simt {
namespace {

using test::Bytes;
using test::Case;

constexpr std::byte kUntouched{0xee};
constexpr std::size_t kMargin = 64;  // bytes checked on both sides of an output

// Memory of one rank: the content that the host wrote to the device, and read back.
struct Buffer {
  std::byte* device;
  std::size_t at;  // of the first element, after the margin
  std::size_t bytes;

  void* data() const { return device + at; }
};

class DirectKernels : public testing::Test {
 protected:
  explicit DirectKernels() : api(*gpu_api()) {}

  Buffer make(TestDevice& gpu, std::size_t bytes, std::size_t misaligned, const Bytes* content) {
    const Buffer made{gpu.allocate<std::byte>(bytes + 2 * kMargin + 16), kMargin + misaligned,
                      bytes};
    Bytes whole(bytes + 2 * kMargin + 16, kUntouched);
    if (content != nullptr)
      std::copy(content->begin(), content->end(), whole.begin() + static_cast<long>(made.at));
    EXPECT_CUDA(api.copy(made.device, whole.data(), whole.size(), GpuCopy::kAny, stream));
    return made;
  }
  // Returns the content after checking both margins.
  Bytes fetch(const Buffer& from) {
    Bytes whole(from.bytes + 2 * kMargin + 16);
    EXPECT_CUDA(api.copy(whole.data(), from.device, whole.size(), GpuCopy::kAny, stream));
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (i >= from.at && i < from.at + from.bytes) continue;
      EXPECT_EQ(whole[i], kUntouched) << "byte " << i << " beside an output";
    }
    return Bytes(whole.begin() + static_cast<std::ptrdiff_t>(from.at),
                 whole.begin() + static_cast<std::ptrdiff_t>(from.at + from.bytes));
  }

  void all_reduce(TestDevice& gpu, const Case& c, Random& random);

  const GpuApi& api;
  GpuStream stream = nullptr;
};

void DirectKernels::all_reduce(TestDevice& gpu, const Case& c, Random& random) {
  stream = gpu.stream();
  const std::size_t size = size_of(c.type), bytes = c.count * size;
  const bool equal_places = !random.one_in(3);  // equal offsets allow vector accesses
  const std::size_t common = random.below(16 / size) * size;
  std::vector<Buffer> in, out;
  cuda::ReduceArgs args{};
  for (int r = 0; r < c.ranks; ++r) {
    const std::size_t place = equal_places ? common : random.below(16 / size) * size;
    const Bytes input = make_input(c, r);
    in.push_back(make(gpu, bytes, place, &input));
    out.push_back(random.one_in(2) ? in.back() : make(gpu, bytes, place, nullptr));
    args.input[r] = in.back().data(), args.output[r] = out.back().data();
    if (c.op == RedOp::kPreMulSum) {
      const Bytes scalar = make_scalar(c, r);
      if (random.one_in(2)) {
        std::memcpy(&args.scalar[r], scalar.data(), size);
      } else {
        const Buffer late = make(gpu, size, 0, &scalar);
        args.late_scalars |= 1ull << r;
        args.scalar[r] = reinterpret_cast<std::uint64_t>(late.data());
      }
    }
  }
  args.calls = 1, args.count[0] = c.count, args.ranks = c.ranks;
  args.sources = args.targets = c.ranks, args.segments = 1;
  GpuLaunch launch;
  launch.kernel = c.ranks > cuda::kNarrowRanks ? cuda::wide_direct_kernel(c.type, c.op)
                                               : cuda::direct_kernel(c.type, c.op);
  launch.grid = 1 + static_cast<unsigned>(random.below(3));
  launch.block = 32u << random.below(2);
  launch.arguments = &args, launch.argument_bytes = sizeof args;
  ASSERT_CUDA(api.launch(launch, stream));
  ASSERT_CUDA(api.synchronize_stream(stream));
  for (int r = 0; r < c.ranks; ++r) {
    const Bytes got = fetch(out[static_cast<std::size_t>(r)]), want = expected_output(c, r);
    ASSERT_EQ(test::first_difference(c.type, got.data(), want.data(), c.count), -1)
        << name(c.type) << " " << name(c.op) << ", " << c.ranks << " ranks, " << c.count
        << " elements, rank " << r;
  }
}

TEST_F(DirectKernels, ReduceEveryTypeAndOperation) {
  for_each_round(8, [&](std::uint64_t seed) {
    Random random(seed);
    for (int type = 0; type < kDataTypes; ++type) {
      TestDevice gpu({.devices = 1, .seed = random.next(), .weak = random.one_in(2)});
      for (int op = 0; op < kRedOps; ++op) {
        Case c;
        c.type = static_cast<DataType>(type), c.op = static_cast<RedOp>(op);
        if (!supported(c.type, c.op)) continue;
        c.ranks = 1 + static_cast<int>(random.below(8));
        c.count = random.below(random.one_in(4) ? 1500 : 100);
        c.seed = static_cast<unsigned>(random.next());
        all_reduce(gpu, c, random);
        if (HasFatalFailure()) return;
      }
    }
  });
}

TEST_F(DirectKernels, CopyAnyBytesAnywhere) {
  for_each_round(60, [&](std::uint64_t seed) {
    Random random(seed);
    TestDevice gpu({.devices = 1, .seed = seed, .weak = random.one_in(2)});
    stream = gpu.stream();
    cuda::CopyArgs args{};
    std::vector<Bytes> contents;
    std::vector<Buffer> targets;
    std::vector<std::size_t> source_of;
    args.items = 1 + static_cast<int>(random.below(5));
    for (int i = 0; i < args.items; ++i) {
      const std::size_t bytes = random.below(random.one_in(3) ? 3000 : 60);
      Bytes content(bytes);
      for (std::byte& byte : content) byte = static_cast<std::byte>(random.next());
      const std::size_t place = random.below(16);
      const Buffer source = make(gpu, bytes, place, &content);
      cuda::CopyArgs::Item& item = args.item[i];
      item = {source.data(), bytes, static_cast<std::uint32_t>(args.all_targets),
              1 + static_cast<std::uint32_t>(random.below(4))};
      for (std::uint32_t t = 0; t < item.targets; ++t) {
        targets.push_back(make(gpu, bytes, random.one_in(2) ? place : random.below(16), nullptr));
        source_of.push_back(contents.size());
        args.target[args.all_targets++] = targets.back().data();
      }
      contents.push_back(std::move(content));
    }
    GpuLaunch launch;
    launch.kernel = cuda::kCopyKernel;
    launch.grid = 1 + static_cast<unsigned>(random.below(6)), launch.block = 64;
    launch.arguments = &args, launch.argument_bytes = sizeof args;
    ASSERT_CUDA(api.launch(launch, stream));
    for (std::size_t t = 0; t < targets.size(); ++t)
      ASSERT_EQ(fetch(targets[t]), contents[source_of[t]]) << "target " << t;
  });
}

}  // namespace
}  // namespace rondo::simt
