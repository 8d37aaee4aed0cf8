// SPDX-License-Identifier: Apache-2.0
// The command line: accepted and refused options; every accepted sweep ends.
#include "bench/options.h"

#include <gtest/gtest.h>

#include "bench/kinds.h"
#include "bench/report.h"
#include "bench/sweep.h"

namespace rondo::bench {
namespace {

Parsed parse_words(std::vector<std::string> words, bool plain = false) {
  std::vector<char*> argv;
  words.insert(words.begin(), "bench");
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const Parsed parsed = parse(static_cast<int>(argv.size()), argv.data(), Kind::kAllReduce, plain);
  testing::internal::GetCapturedStdout();
  testing::internal::GetCapturedStderr();
  return parsed;
}

TEST(BenchOptions, NcclTestsDefaultsUnderItsNames) {
  const Parsed parsed = parse_words({}, true);
  ASSERT_TRUE(parsed.options);
  EXPECT_EQ(parsed.options->min_bytes, 32u << 20);
  EXPECT_EQ(parsed.options->max_bytes, 32u << 20);
  EXPECT_EQ(parsed.options->iterations, 20);
  EXPECT_EQ(parsed.options->warmup, 1);
  EXPECT_EQ(parsed.options->ranks, 0);
}

TEST(BenchOptions, ShortAndLongNames) {
  const Parsed parsed =
      parse_words({"-b", "8",        "-e", "128M", "-f", "2",     "-n", "7", "-w", "3", "-o", "max",
                   "-d", "bfloat16", "-r", "-1",   "-c", "every", "-a", "3", "-t", "2", "-g", "3"});
  ASSERT_TRUE(parsed.options);
  const Options& options = *parsed.options;
  EXPECT_EQ(options.min_bytes, 8u);
  EXPECT_EQ(options.max_bytes, 128u << 20);
  EXPECT_EQ(options.ops, std::vector{Op::kMax});
  EXPECT_EQ(options.types, std::vector{ncclBfloat16});
  EXPECT_EQ(options.root, kAllRoots);
  EXPECT_EQ(options.check, kCheckEvery);
  EXPECT_EQ(options.average, 3);
  const Parsed longer = parse_words({"--minbytes", "1.5K", "--maxbytes=4k", "--stepbytes", "512",
                                     "--iters", "1", "--datatype", "all", "--op", "all"});
  ASSERT_TRUE(longer.options);
  EXPECT_EQ(sweep_sizes(*longer.options).size(), 6u);
  EXPECT_EQ(longer.options->types.size(), all_types().size());
}

TEST(BenchOptions, BitsAreOfFloatsAndOfTwoFourOrEightRanks) {
  EXPECT_TRUE(parse_words({"--bits", "-d", "bfloat16", "--ranks", "4"}).options->bits);
  EXPECT_FALSE(parse_words({"--bits", "-d", "int32"}).options);
  EXPECT_FALSE(parse_words({"--bits", "-d", "all"}).options);
  EXPECT_FALSE(parse_words({"--bits", "--ranks", "3"}).options);
}

TEST(BenchOptions, WhatIsNotUnderstoodFails) {
  const std::vector<std::vector<std::string>> bad{{"--nonsense"},
                                                  {"-q", "3"},
                                                  {"-d", "flaot"},
                                                  {"-o", "sun"},
                                                  {"-b", "12Q"},
                                                  {"-n", "0"},
                                                  {"-f", "0"},
                                                  {"-m", "0"},
                                                  {"-t", "0"},
                                                  {"-a", "4"},
                                                  {"-z", "9"},
                                                  {"-c", "often"},
                                                  {"-r", "-2"},
                                                  {"-r", "1x"},
                                                  {"-n", "ten"},
                                                  {"-o", "bxor"},
                                                  {"--values", "odd"},
                                                  {"-u", "-1"},
                                                  {"--spread", "2"},
                                                  {"stray"},
                                                  {"-b", "4K", "-e", "1K"},
                                                  {"-b", "1K", "-e", "2K", "-i", "0"},
                                                  {"--threads", "--processes"},
                                                  {"--fail-if-slower", "5%"},
                                                  {"-c", "every", "-m", "2"},
                                                  {"-G", "1", "-z", "1"},
                                                  {"-G", "1", "-C", "1"},
                                                  {"-G", "1", "-I", "1"},
                                                  {"-G", "1", "-c", "every"},
                                                  {"-G", "1", "-t", "2"}};
  for (const auto& words : bad) {
    std::string line;
    for (const std::string& word : words) line += word + " ";
    const Parsed parsed = parse_words(words);
    EXPECT_FALSE(parsed.options) << line;
    EXPECT_EQ(parsed.exit_code, kBadCommandLine) << line;
  }
}

TEST(BenchOptions, HelpIsNoError) { EXPECT_EQ(parse_words({"-h"}).exit_code, kOk); }

TEST(BenchOptions, GpuOnlyThingsAreRefusedAsNotImplemented) {
  setenv("RONDO_DEVICE", "host", 1);
  EXPECT_EQ(parse_words({"--ranks-per-gpu", "2"}).exit_code, kNotImplemented);
  EXPECT_EQ(parse_words({"-G", "1"}).exit_code, kNotImplemented);
  EXPECT_EQ(parse_words({"-D", "1"}).exit_code, kNotImplemented);
  unsetenv("RONDO_DEVICE");
}

TEST(BenchOptions, ASweepOfTooManySizesIsRefused) {
  EXPECT_EQ(parse_words({"-b", "0", "-e", "1T", "-i", "1"}).exit_code, kBadCommandLine);
  EXPECT_TRUE(parse_words({"-b", "0", "-e", "1M", "-i", "2"}).options);
}

TEST(BenchOptions, EverySweepEnds) {
  for (const char* first : {"0", "1", "7"})
    for (const char* factor : {"1", "2", "3"}) {
      const Parsed parsed = parse_words({"-b", first, "-e", "1000", "-f", factor, "-i", "100"});
      ASSERT_TRUE(parsed.options);
      const auto sizes = sweep_sizes(*parsed.options);
      EXPECT_FALSE(sizes.empty());
      EXPECT_LE(sizes.size(), 12u);
      EXPECT_LE(sizes.back(), 1000u);
      EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end()));
    }
}

TEST(BenchOptions, Fractions) {
  EXPECT_EQ(parse_fraction("5%"), 0.05);
  EXPECT_EQ(parse_fraction("0.1"), 0.1);
  EXPECT_FALSE(parse_fraction("5 percent"));
  EXPECT_FALSE(parse_fraction("-1%"));
}

TEST(BenchTable, NumbersShrinkToTheirColumn) {
  EXPECT_EQ(shrink(3.14159, 6), "3.14");
  EXPECT_EQ(shrink(1234.567, 7), "1234.57");
  EXPECT_EQ(shrink(12345.67, 7), "12345.7");
  EXPECT_EQ(shrink(1234567.8, 7), "1234568");
  EXPECT_EQ(shrink(123456789.0, 7), "1.2e+08");
  for (double x : {0.0, 9999.994, 99999.96, 1e12, 1e300}) EXPECT_LE(shrink(x, 7).size(), 7u) << x;
}

TEST(BenchKinds, LayoutsFitTheirBuffersAndCoverWhatIsReceived) {
  for (const KindInfo& kind : all_kinds())
    for (int ranks = 1; ranks <= 9; ++ranks)
      for (const std::size_t bytes : {0ul, 4ul, 100ul, 4096ul, 100000ul})
        for (int rank = 0; rank < ranks; ++rank) {
          const int root = ranks / 2;
          const Layout mine = layout_of({kind.kind, ncclFloat32, rank, ranks, root}, bytes);
          std::size_t covered = 0;
          for (const Piece& piece : mine.pieces) {
            EXPECT_LE(piece.recv_offset + piece.count, mine.recv_count);
            covered += piece.count;
            const int source = std::max(piece.source, 0);
            const Layout theirs = layout_of({kind.kind, ncclFloat32, source, ranks, root}, bytes);
            EXPECT_LE(piece.source_offset + piece.count, theirs.send_count)
                << kind.name << " " << ranks << " ranks, rank " << rank << " from " << source;
          }
          EXPECT_EQ(covered, mine.recv_count) << kind.name;
          if (kind.in_place) {
            EXPECT_LE(mine.in_place_send + mine.send_count, mine.in_place_count);
            EXPECT_LE(mine.in_place_recv + mine.recv_count, mine.in_place_count);
          }
          if (kind.kind != Kind::kAllToAllV) {
            EXPECT_LE(mine.bytes, bytes);
          }
        }
}

}  // namespace
}  // namespace rondo::bench
