// SPDX-License-Identifier: Apache-2.0
// The files by which watched processes of several hosts find each other.
#include "collectives/watch/host_book.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>

#include "base/poll_until.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"

namespace rondo::test {
namespace {

using watch::HostBook;
using watch::WatchedProcess;

bool eventually(const std::function<bool()>& holds) {
  return poll_until(holds, seconds_from_now(300), std::chrono::milliseconds(5));
}

WatchedProcess other_process() {
  WatchedProcess entry;
  entry.process = 0x1234567890abcdef;
  entry.host = 9;
  entry.ranks = {{0xabc, 3}};
  entry.pid = 77;
  entry.host_name = "node2";
  entry.addresses = {net::resolve({"10.0.0.2", 4000}, AF_UNSPEC)->front(),
                     net::resolve({"fd00::2", 4000}, AF_UNSPEC)->front()};
  entry.secret = auth::random_digest();
  return entry;
}

TEST(HostBookEntry, IsReadAsItWasWritten) {
  const WatchedProcess entry = other_process();
  const auto read = watch::parse_file(watch::text_of(entry));
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(watch::text_of(*read), watch::text_of(entry));
  EXPECT_EQ(read->addresses.size(), 2u);
}

TEST(HostBookEntry, RefusesOtherTexts) {
  const std::string good = watch::text_of(other_process());
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(watch::parse_file(good.substr(0, length)).ok()) << length;
  for (const auto& [what, with] :
       {std::pair<std::string, std::string>{"\"pid\": 77", "\"pid\": -77"},
        {"10.0.0.2", "a.name.to.ask.for"},
        {"\"abc\"", "\"xyz\""}}) {
    std::string bad = good;
    ASSERT_NE(bad.find(what), std::string::npos) << good;
    bad.replace(bad.find(what), what.size(), with);
    const auto read = watch::parse_file(bad);
    EXPECT_TRUE(!read.ok() || read->addresses.size() == 1) << bad;
  }
}

class HostBookFiles : public testing::Test {
 protected:
  void put(const std::string& name, int mode = 0600) {
    std::filesystem::create_directories(shared_);
    std::ofstream(shared_ + '/' + name) << watch::text_of(other_process());
    chmod((shared_ + '/' + name).c_str(), static_cast<mode_t>(mode));
  }
  const TemporaryFolder folder_;
  const std::string shared_ = folder_.path() + "/shared";
  const WithEnvironment dir_{"RONDO_WATCH_DIR", shared_};
};

TEST_F(HostBookFiles, ListTheRanksOfTheSameCommunicators) {
  put("0000000000000abc-3.watch");
  put("0000000000000abd-3.watch");
  put("0000000000000abc-4.watch", 0644);  // others may have read the secret
  const auto book = HostBook::open();
  ASSERT_NE(book, nullptr);
  const auto lists = [&](const std::set<watch::RankName>& own, std::size_t others) {
    return eventually([&] { return book->update(own), book->others().size() == others; });
  };
  ASSERT_TRUE(lists({{0xabc, 0}}, 1));
  EXPECT_EQ(book->others().begin()->second.ranks.at(0).second, 3);
  EXPECT_TRUE(lists({}, 0));
}

TEST_F(HostBookFiles, AreOfOneUserAndGoWithTheRank) {
  const auto path_of = [&](const char* name) { return shared_ + '/' + name; };
  const std::string own = path_of("0000000000000abc-0.watch");
  const std::string later = path_of("0000000000000def-1.watch");
  const auto exists = [](const std::string& path) { return std::filesystem::exists(path); };
  put("0000000000000abc-3.watch");
  {
    const auto book = HostBook::open();
    const auto reaches = [&](const std::set<watch::RankName>& ranks, const auto& holds) {
      return eventually([&] { return book->update(ranks), holds(); });
    };
    EXPECT_TRUE(reaches({{0xabc, 0}}, [&] { return !book->others().empty(); }));
    EXPECT_FALSE(exists(own)) << "nobody could ask it";
    book->answer_at(other_process().addresses);
    EXPECT_TRUE(reaches({{0xabc, 0}, {0xdef, 1}}, [&] { return exists(own) && exists(later); }));
    struct stat info {};
    ASSERT_EQ(stat(own.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    EXPECT_TRUE(reaches({{0xabc, 0}}, [&] { return !exists(later); }));
  }
  EXPECT_TRUE(eventually([&] { return !exists(own); }));
  EXPECT_TRUE(exists(path_of("0000000000000abc-3.watch")));
}

}  // namespace
}  // namespace rondo::test
