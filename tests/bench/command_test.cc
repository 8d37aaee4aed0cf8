// SPDX-License-Identifier: Apache-2.0
// The rondo command as a program: the guarantees of rondo run, and the exit codes of the other
// commands.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/json.h"
#include "tests/bench/shell.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"

namespace rondo {
namespace {

using test::WithEnvironment;
using Words = std::vector<std::string>;

constexpr int kPatience = 300'000;  // ms; a wait this long means failure on any machine

// A rondo in the background. It never outlives the test.
class Program {
 public:
  // Every process that it starts inherits the write end of `life_`: end of file on it proves that
  // none of them is left.
  explicit Program(Words words) {
    int out[2], life[2];
    if (pipe(out) != 0 || pipe(life) != 0) throw std::runtime_error("no pipes");
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      dup2(out[1], 1), dup2(out[1], 2);
      close(out[0]), close(out[1]), close(life[0]);
      std::vector<char*> argv;
      words.insert(words.begin(), RONDO_PROGRAM);
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(126);
    }
    close(out[1]), close(life[1]);
    out_.reset(out[0]), life_.reset(life[0]);
    // Later tests' children must not inherit these.
    fcntl(out_.get(), F_SETFD, FD_CLOEXEC), fcntl(life_.get(), F_SETFD, FD_CLOEXEC);
  }
  ~Program() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
  }

  void signal(int number) { kill(pid_, number); }
  int pid() const { return pid_; }
  const std::string& output() const { return output_; }

  // Reads until the text has appeared `times` times.
  bool read_until(const std::string& text, int times = 1) {
    for (;;) {
      int found = 0;
      for (std::size_t at = 0; (at = output_.find(text, at)) != std::string::npos; ++at) ++found;
      if (found >= times) return true;
      if (!read_some()) return false;
    }
  }

  // 128 + signal if a signal ended rondo itself.
  int wait() {
    while (read_some()) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  bool nobody_left() const {
    pollfd end{life_.get(), POLLIN, 0};
    char byte;
    return poll(&end, 1, kPatience) == 1 && read(life_.get(), &byte, 1) == 0;
  }

 private:
  bool read_some() {
    pollfd ready{out_.get(), POLLIN, 0};
    if (poll(&ready, 1, kPatience) != 1) return false;
    char buffer[4096];
    const ssize_t got = read(out_.get(), buffer, sizeof buffer);
    if (got > 0) output_.append(buffer, static_cast<std::size_t>(got));
    return got > 0;
  }

  int pid_ = -1;
  Fd out_, life_;
  std::string output_;
};

struct Ended {
  int status;
  std::string output;
};

Ended rondo(Words words) {
  Program program(std::move(words));
  const int status = program.wait();
  EXPECT_TRUE(program.nobody_left());
  return {status, program.output()};
}

Ended run_shell(int ranks, const std::string& script, Words options = {}) {
  Words words{"run", "-n", std::to_string(ranks)};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", "sh", "-c", script});
  return rondo(std::move(words));
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(RondoRun, GivesEachRankItsNumber) {
  const Ended ended =
      run_shell(3,
                "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR; "
                "test -n \"$MASTER_PORT\" && test -n \"$RONDO_JOB\"");
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(sorted_lines(ended.output),
            (Words{"[0] 0/3 0/3 127.0.0.1", "[1] 1/3 1/3 127.0.0.1", "[2] 2/3 2/3 127.0.0.1"}));
}

TEST(RondoRun, PassesArgumentsOnAsTheyAre) {
  const Ended ended = rondo(
      {"run", "-n", "1", "--no-prefix", "--", "printf", "%s|", "-n", "--", "a b", "--keep-going"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.output, "-n|--|a b|--keep-going|\n");
}

TEST(RondoRun, KeepsLinesWhole) {
  const Ended ended =
      run_shell(4,
                "i=0; while [ $i -lt 200 ]; do printf %s $RANK$RANK$RANK; printf '%s\\n' "
                "$RANK$RANK$RANK; i=$((i+1)); done",
                {"--no-prefix"});
  EXPECT_EQ(ended.status, 0);
  const auto lines = sorted_lines(ended.output);
  ASSERT_EQ(lines.size(), 800u);
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(lines[i], std::string(6, static_cast<char>('0' + i / 200)));
}

TEST(RondoRun, KeepsLinesWholeWhereStdoutAndStderrAreOnePipe) {
  const Ended ended = run_shell(1, "seq 10000 15000 & seq 50000 55000 >&2; wait");
  EXPECT_EQ(ended.status, 0);
  std::istringstream stream(ended.output);
  int next[] = {10000, 50000};
  for (std::string line; std::getline(stream, line);) {
    int& expected = next[line.rfind("[0] 5", 0) == 0];
    ASSERT_EQ(line, "[0] " + std::to_string(expected++));
  }
  EXPECT_EQ(next[0], 15001);
  EXPECT_EQ(next[1], 55001);
}

// 54 KB, which a pipe holds whole: the rank ends before all of them are forwarded.
TEST(RondoRun, ReportsAnEndAfterTheLastLinesOfTheRank) {
  const Ended ended = run_shell(1, "seq 100000 107700; exit 3", {"--keep-going", "--no-prefix"});
  EXPECT_EQ(ended.status, 3);
  EXPECT_TRUE(ended.output.ends_with("\n107700\nrondo run: rank 0 exited with status 3; 0 go on\n"))
      << ended.output.substr(ended.output.size() - std::min<std::size_t>(ended.output.size(), 200));
}

TEST(RondoRun, ExitsWithTheStatusOfTheRankThatFailed) {
  EXPECT_EQ(run_shell(3, "exit 0").status, 0);
  EXPECT_EQ(run_shell(3, "test $RANK != 1 || exit 42; sleep 100").status, 42);
  EXPECT_EQ(run_shell(3, "test $RANK != 2 || kill -KILL $$; sleep 100").status, 128 + SIGKILL);
  EXPECT_EQ(run_shell(2, "test $RANK != 0 || kill -SEGV $$; sleep 100").status, 128 + SIGSEGV);
  EXPECT_EQ(rondo({"run", "-n", "2", "--", "/no/such/program"}).status, 127);
}

TEST(RondoRun, KillsRanksThatIgnoreTheRequestToEnd) {
  const Ended ended =
      run_shell(3, "trap '' TERM; test $RANK != 0 || exit 5; while :; do sleep 100; done",
                {"--grace", "0.2"});
  EXPECT_EQ(ended.status, 5);
}

TEST(RondoRun, LetsSurvivorsGoOnWhereAsked) {
  const Ended ended =
      run_shell(3, "test $RANK != 1 || kill -KILL $$; sleep 0.2; echo alive", {"--keep-going"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_NE(ended.output.find("[0] alive"), std::string::npos);
  EXPECT_NE(ended.output.find("[2] alive"), std::string::npos);
  EXPECT_EQ(run_shell(2, "test $RANK != 1 || exit 9", {"--keep-going"}).status, 9);
  EXPECT_EQ(run_shell(2, "kill -KILL $$", {"--keep-going"}).status, 128 + SIGKILL);
}

TEST(RondoRun, ForwardsSignalsToEveryRank) {
  for (const auto& [name, number] :
       {std::pair{"USR1", SIGUSR1}, std::pair{"USR2", SIGUSR2}, std::pair{"HUP", SIGHUP},
        std::pair{"INT", SIGINT}, std::pair{"TERM", SIGTERM}}) {
    Program program({"run", "-n", "3", "--", "sh", "-c",
                     std::string("trap 'echo got it; exit 0' ") + name +
                         "; echo ready; while :; do sleep 0.05; done"});
    ASSERT_TRUE(program.read_until("ready", 3)) << name << program.output();
    program.signal(number);
    EXPECT_TRUE(program.read_until("got it", 3)) << name << program.output();
    EXPECT_EQ(program.wait(), 0) << name;
    EXPECT_TRUE(program.nobody_left());
  }
}

TEST(RondoRun, ASignalThatEndsTheRanksIsItsStatus) {
  Program program({"run", "-n", "2", "--", "sh", "-c", "echo ready; exec sleep 100"});
  ASSERT_TRUE(program.read_until("ready", 2));
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(), 128 + SIGINT);
}

// Grandchildren, inside and outside of the rank's process group.
const char* const kFamily =
    "setsid sleep 300 & sleep 300 & (setsid sh -c 'sleep 300 & sleep 300' &); echo ready; wait";

TEST(RondoRun, LeavesNobodyBehindAfterTheRanksEnded) {
  EXPECT_EQ(run_shell(2, "setsid sleep 300 & sleep 300 & exit 0").status, 0);
  EXPECT_EQ(run_shell(2, "(setsid sh -c 'sleep 300 & sleep 300' &) ; exit 3").status, 3);
}

TEST(RondoRun, LeavesNobodyBehindWhenItIsKilled) {
  Program program({"run", "-n", "2", "--", "sh", "-c", kFamily});
  ASSERT_TRUE(program.read_until("ready", 2));
  program.signal(SIGKILL);
  EXPECT_TRUE(program.nobody_left());
}

int guardian_of(int rondo) {
  std::string path =
      "/proc/" + std::to_string(rondo) + "/task/" + std::to_string(rondo) + "/children";
  std::FILE* file = std::fopen(path.c_str(), "r");
  int child = -1;
  if (file != nullptr && std::fscanf(file, "%d", &child) != 1) child = -1;
  if (file != nullptr) std::fclose(file);
  return child;
}

TEST(RondoRun, LeavesNobodyBehindWhenItsGuardianIsKilled) {
  Program program({"run", "-n", "2", "--", "sh", "-c", kFamily});
  ASSERT_TRUE(program.read_until("ready", 2));
  const int guardian = guardian_of(program.pid());
  if (guardian < 0) GTEST_SKIP() << "the kernel does not list children in /proc";
  kill(guardian, SIGKILL);
  EXPECT_EQ(program.wait(), 128 + SIGKILL);
  EXPECT_TRUE(program.nobody_left());
}

TEST(RondoRun, RefusesACommandLineThatItDoesNotUnderstand) {
  EXPECT_EQ(rondo({"run", "-n", "0", "--", "true"}).status, 2);
  EXPECT_EQ(rondo({"run", "-n", "2"}).status, 2);
  EXPECT_EQ(rondo({"run", "--nonsense", "--", "true"}).status, 2);
  EXPECT_EQ(rondo({"run", "--help"}).status, 0);
  EXPECT_EQ(rondo({"no-such-command"}).status, 2);
  EXPECT_EQ(rondo({}).status, 2);
}

TEST(RondoCommand, PrintsItsRegistryItsHostAndItsVersion) {
  EXPECT_NE(rondo({"env"}).output.find("NCCL_ALGO"), std::string::npos);
  EXPECT_NE(rondo({"env", "--json"}).output.find("\"RONDO_TIMEOUT\""), std::string::npos);
  EXPECT_EQ(rondo({"topo"}).status, 0);
  EXPECT_EQ(rondo({"topo", "--json"}).output.front(), '{');
  const std::string file = RONDO_FIXTURES_DIR "/dgx-h100.xml";
  EXPECT_NE(rondo({"topo", "--nccl-xml", file, "--matrix"}).output.find("NV18"), std::string::npos);
  EXPECT_EQ(rondo({"topo", "--nccl-xml", "/nowhere.xml"}).status, 1);
  EXPECT_NE(rondo({"--version"}).output.find("nccl 2"), std::string::npos);
  const Ended doctor = rondo({"doctor", "--ranks", "2"});
  EXPECT_NE(doctor.output.find("memory files"), std::string::npos);
  const Json found = Json::parse(shell(RONDO_PROGRAM " doctor --ranks 2 --json 2>/dev/null").text);
  EXPECT_GT(found.at("findings").elements().size(), 5u);
}

TEST(RondoEnvironment, ComesFromConfFilesBehindTheVariablesThemselves) {
  const test::TemporaryFolder folder;
  const std::string home = folder.path();
  std::ofstream(home + "/.nccl.conf") << "# of this user\n  NCCL_ALGO=ring\nNCCL_BUFFSIZE=64K\n"
                                         "NCCL_ENV_PLUGIN=fast\nnot a line\n";
  std::ofstream(home + "/other") << "NCCL_BUFFSIZE=32K\r\n";
  const WithEnvironment its_home("HOME", home);
  const std::string own = rondo({"env"}).output;
  EXPECT_NE(own.find("NCCL_ALGO                string  = 'ring'"), std::string::npos) << own;
  EXPECT_NE(own.find("= '64K'"), std::string::npos) << own;
  EXPECT_NE(own.find("NCCL_ENV_PLUGIN='fast' is set and has no effect"), std::string::npos) << own;
  {
    const WithEnvironment variable("NCCL_ALGO", "tree");
    const std::string both = rondo({"env"}).output;
    EXPECT_NE(both.find("NCCL_ALGO                string  = 'tree'"), std::string::npos) << both;
    EXPECT_NE(both.find("= '64K'"), std::string::npos) << both;
  }
  const WithEnvironment file("NCCL_CONF_FILE", home + "/other");
  const std::string other = rondo({"env"}).output;
  EXPECT_EQ(other.find("= 'ring'"), std::string::npos) << other;
  EXPECT_NE(other.find("= '32K'"), std::string::npos) << other;
}

TEST(RondoEnvironment, OfProtocolsAndAlgorithmsIsRefusedByName) {
  for (const char* name : {"NCCL_PROTO", "NCCL_ALGO"}) {
    const WithEnvironment wrong(name, "simpel");
    for (const Words& words :
         {Words{"explain", "all_reduce", "4M"},
          Words{"bench", "all_reduce", "--ranks", "2", "-b", "4", "-e", "4"}}) {
      const Ended ended = rondo(words);
      EXPECT_NE(ended.status, 0);
      EXPECT_NE(ended.output.find(std::string(name) + "='simpel': 'simpel' is not a"),
                std::string::npos)
          << ended.output;
    }
  }
  const WithEnvironment simple("NCCL_PROTO", "Simple");
  const Ended bench =
      rondo({"bench", "all_reduce", "--ranks", "2", "-b", "4", "-e", "4", "--extended", "-n", "2"});
  EXPECT_NE(bench.output.find("staged"), std::string::npos) << bench.output;
}

// The real library: as processes that rondo starts, as threads, and under rondo run.
TEST(RondoBench, MeasuresAndChecksAsProcessesAndAsThreads) {
  for (const char* launch : {"--processes", "--threads"}) {
    const Ended ended = rondo({"bench", "all_reduce", "--ranks", "3", launch, "-b", "1000", "-e",
                               "100000", "-f", "10", "-n", "3", "--values", "all"});
    EXPECT_EQ(ended.status, 0) << ended.output;
    EXPECT_NE(ended.output.find("# Out of bounds values : 0 OK"), std::string::npos);
  }
}

TEST(RondoBench, TakesPartWhereALauncherStartedIt) {
  const Ended ended = rondo({"run", "-n", "2", "--no-prefix", "--", RONDO_PROGRAM, "bench",
                             "all_gather", "-b", "4096", "-e", "4096", "-n", "2"});
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_NE(ended.output.find("#  Rank  1 "), std::string::npos) << ended.output;
}

TEST(RondoBench, MeasuresGroupsOfRanksAtOnce) {
  const WithEnvironment split("NCCL_TESTS_SPLIT", "MOD 2");
  // The blocks of a small group are larger than those of all ranks.
  for (const char* collective : {"reduce", "all_gather", "reduce_scatter", "alltoall", "scatter"}) {
    const char* launch = collective[0] == 'r' ? "--processes" : "--threads";
    const Ended ended = rondo({"bench", collective, "--ranks", "5", launch, "-b", "4000", "-e",
                               "1M", "-f", "256", "-n", "2", "-r", "all"});
    EXPECT_EQ(ended.status, 0) << ended.output;
    EXPECT_NE(ended.output.find("#  Rank  3 Group  1 "), std::string::npos) << ended.output;
    EXPECT_NE(ended.output.find("# Out of bounds values : 0 OK"), std::string::npos);
  }
  EXPECT_EQ(rondo({"bench", "reduce", "--ranks", "5", "-r", "2"}).status, 6);
  const WithEnvironment wrong("NCCL_TESTS_SPLIT", "HALF 2");
  EXPECT_EQ(rondo({"bench", "reduce", "--ranks", "4"}).status, 6);
}

// A rank stops, for good or until another one has given up: the output names the measurement, not
// the errors of the communicators that the timeout aborts.
TEST(RondoBench, NamesTheMeasurementAfterATimeoutAndNothingElse) {
  for (const bool continues : {false, true}) {
    Program bench({"bench", "all_reduce", "--ranks", "2", "-b", "4", "-e", "4", "-n", "20", "-N",
                   "0", "-T", "2", "--no-progress"});
    ASSERT_TRUE(bench.read_until(" float ")) << bench.output();
    const std::string rank = "#  Rank  1 Group  0 Pid ";
    const std::size_t at = bench.output().find(rank);
    ASSERT_NE(at, std::string::npos) << bench.output();
    const pid_t pid = std::stoi(bench.output().substr(at + rank.size()));
    kill(pid, SIGSTOP);  // unless a busy machine has made it late enough without that
    ASSERT_TRUE(bench.read_until("no result within -T 2 s for 4 B float sum")) << bench.output();
    if (continues) kill(pid, SIGCONT);
    EXPECT_EQ(bench.wait(), 4) << bench.output();
    EXPECT_TRUE(bench.nobody_left());
    for (const char* text : {"destroyed", "abort", "NCCL WARN"})
      EXPECT_EQ(bench.output().find(text), std::string::npos) << bench.output();
  }
}

TEST(RondoBench, ExitsWithNcclTestsCodes) {
  EXPECT_EQ(rondo({"bench", "all_reduce", "--nonsense"}).status, 2);
  EXPECT_EQ(rondo({"bench", "no_such_collective"}).status, 2);
  const WithEnvironment host("RONDO_DEVICE", "host");
  EXPECT_EQ(rondo({"bench", "all_reduce", "-G", "1"}).status, 5);
  EXPECT_EQ(rondo({"bench", "hypercube", "--ranks", "3", "--threads"}).status, 6);
  EXPECT_EQ(rondo({"bench", "all_reduce", "--ranks", "3", "-t", "2"}).status, 6);
}

}  // namespace
}  // namespace rondo
