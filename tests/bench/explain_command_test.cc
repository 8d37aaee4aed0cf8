// SPDX-License-Identifier: Apache-2.0
// The output of rondo explain, env and run is true.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "tests/bench/shell.h"

namespace {

// `before`: variables, in shell syntax.
ShellResult rondo(const std::string& before, const std::string& words) {
  return shell(before + " " RONDO_PROGRAM " " + words);
}

void expect_output(const ShellResult& output, const std::string& wanted) {
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_NE(output.text.find(wanted), std::string::npos) << output.text;
}

TEST(ExplainCommand, ReportsThatNvlsRunsWhereItIsAskedFor) {
  const std::string eight = "explain all_reduce 4M --ranks 8 --gpus 8";
  expect_output(rondo("NCCL_ALGO=nvls", eight), "algorithm    nvls");
  expect_output(rondo("NCCL_NVLS_ENABLE=1", eight), "algorithm    nvls");
  expect_output(rondo("NCCL_NVLS_ENABLE=1", eight),
                "rounds       of up to 16384 elements (64 KiB) per CTA");
  expect_output(rondo("NCCL_NVLS_ENABLE=1", eight + " --processes"), "algorithm    nvls");
  expect_output(rondo("NCCL_NVLS_ENABLE=1", eight + " --op max"), "algorithm    twoshot");
  expect_output(rondo("NCCL_NVLS_ENABLE=1 RONDO_REPRODUCIBLE=1", eight), "algorithm    twoshot");
  expect_output(rondo("NCCL_NVLS_ENABLE=1", "explain all_reduce 64M --ranks 8 --gpus 4"),
                "algorithm    ring");
  expect_output(rondo("", eight), "algorithm    twoshot");
}

TEST(ExplainCommand, ReportsThatTheHostServesProcessesThatShareSomeOfSeveralGpus) {
  const ShellResult output = rondo("", "explain all_reduce 4M --ranks 4 --gpus 2 --processes");
  expect_output(output, "runs         on the host; through pinned memory");
  expect_output(output, "algorithm");
}

TEST(ExplainCommand, ReportsHowCollectivesWithCountsRunOnGpus) {
  const std::string on = " 4M --ranks 8 --gpus 8";
  for (const char* which : {"alltoallv", "all_gather_v", "gather_v", "scatter_v"})
    expect_output(rondo("", "explain " + std::string(which) + on), "runs         as messages");
  expect_output(rondo("", "explain reduce_scatter_v" + on), "see `rondo explain reduce`");
}

TEST(ExplainCommand, PredictsWhatACallTakesOnAMachine) {
  const ShellResult output = rondo("", "explain all_reduce 64M --topo dgx-h100");
  for (const char* const row :
       {"algorithm    ring", "predicted ", "GB/s of bus bandwidth", ", not measured",
        "busiest wire NVSwitch > GPU", "bound        450.0 GB/s", "next best    nvls by Simple"})
    expect_output(output, row);
  expect_output(rondo("", "explain all_reduce 64K --topo dgx-a100 --hosts 2"),
                "changes at   8 MiB; ring by Simple");
  const std::string small = "explain all_reduce 64K --topo dgx-h100 --hosts 2";
  expect_output(rondo("", small), "next best    ring by Simple");
  const ShellResult forced = rondo("NCCL_ALGO=ring", small);
  expect_output(forced, "next best    tree by Simple");
  expect_output(forced, "by this model faster than the chosen algorithm");
  expect_output(rondo("", "explain barrier --topo dgx-a100"),
                "the chosen algorithm is not simulated");
  EXPECT_EQ(rondo("", "explain all_reduce 64K --topo dgx-a100 --ranks 9").status, 2);
  EXPECT_EQ(rondo("", "explain all_reduce 64K --topo nowhere").status, 2);
}

TEST(ExplainCommand, ReportsWhichRingsChannelsAreAndByWhichPortsTheyLeave) {
  const std::string call = "explain all_reduce 64M --topo dgx-h100 --hosts 2";
  const ShellResult output = rondo("", call);
  for (const char* const row :
       {"rings        8 rings by the topology, 400 GB/s; the wires allow 400",
        "channel 0    ranks ", "channel 7    ranks ", "; host 0 mlx5_"})
    expect_output(output, row);
  expect_output(rondo("", "explain all_reduce 64M --topo dgx-h100"),
                "rings        rank after rank on all");
  const ShellResult read =
      rondo("", call +
                    " --json | python3 -c 'import json, sys; it = json.load(sys.stdin);"
                    " rings = it[\"channels\"][\"channels\"];"
                    " print(len(it[\"rows\"]) > 5, len(rings),"
                    " sorted(rings[3][\"ranks\"]) == list(range(16)),"
                    " len({r[\"hosts\"][0][\"out\"] for r in rings}))'");
  expect_output(read, "True 8 True 8");
  expect_output(rondo("", "explain all_reduce 4M --json"), "\"what\": \"algorithm\"");
}

TEST(ExplainCommand, GivesProgramsNumbersWithUnitsInTheirKeys) {
  const std::string read =
      " --json | python3 -c 'import json, sys; it = json.load(sys.stdin);"
      " print(it[\"bytes\"], it[\"algorithm\"], it[\"predicted_us\"] > 0,"
      " it[\"next_best_us\"] > 0, it[\"round_bytes\"] > 0)'";
  expect_output(rondo("", "explain all_reduce 4M --ranks 4" + read), "4194304 twoshot True True");
  expect_output(rondo("", "explain all_reduce 64M --topo dgx-h100" + read), "67108864 ring True");
}

TEST(ExplainCommand, ReportsThatATrayIsAHost) {
  const std::string call = "explain all_reduce 64M --hosts 4 --topo ";
  expect_output(rondo("", call + "gb200-nvl72"), "NVLink between hosts is not used");
  expect_output(rondo("NCCL_MNNVL_ENABLE=1", call + "gb200-nvl72"),
                "NVLink joins rings, trees, LL push and messages of all trays");
  expect_output(rondo("NCCL_MNNVL_ENABLE=1",
                      "explain all_reduce 16K --type bfloat16 --hosts 4 --topo gb200-nvl72"),
                "oneshot; every rank writes its data into the memory of all others");
  const std::string messages = "explain alltoall 64M --hosts 4 --topo gb200-nvl72";
  expect_output(rondo("NCCL_MNNVL_ENABLE=1", messages), "slots of other hosts' GPUs by NVLink");
  expect_output(rondo("", messages), "each rank's proxy sends slots between hosts");
  const ShellResult dgx = rondo("", call + "dgx-b200");
  EXPECT_EQ(dgx.text.find("tray"), std::string::npos) << dgx.text;
}

TEST(ExplainCommand, PredictsMessagesOnMachines) {
  for (const char* const collective : {"alltoall", "gather", "sendrecv"}) {
    const ShellResult output =
        rondo("", std::string("explain ") + collective + " 64M --topo dgx-a100 --hosts 2");
    expect_output(output, "GB/s of bus bandwidth");
    expect_output(output, "busiest wire");
  }
}

TEST(EnvCommand, DoesNotShowTheSecret) {
  const std::string secret = "RONDO_SECRET=0123456789abcdefgh";
  for (const char* command : {"env", "env --json", "env --markdown", "doctor"}) {
    const ShellResult output = rondo(secret, command);
    EXPECT_EQ(output.text.find("0123456789abcdefgh"), std::string::npos) << output.text;
  }
  EXPECT_NE(rondo(secret, "env").text.find("(not shown)"), std::string::npos);
}

// A setuid program takes no file names and no secret from its user.
TEST(EnvCommand, OfASetuidProgramNamesNoFiles) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to make one";
  const std::string script =
      "d=$(mktemp -d) && chmod 755 $d && cp " RONDO_PROGRAM
      " $d/rondo && chmod 4755 $d/rondo; "
      "export NCCL_DEBUG_FILE=/x1 RONDO_TOPO_XML=/x2 RONDO_SECRET=x3x3x3x3x3x3x3x3 NCCL_ALGO=x4; "
      "setpriv --reuid 65534 --clear-groups $d/rondo env --json; s=$?; rm -rf $d; exit $s";
  const ShellResult output = shell(script);
  if (output.status != 0) GTEST_SKIP() << "cannot run one here: " << output.text;
  EXPECT_NE(output.text.find("\"x4\""), std::string::npos) << output.text;
  for (const char* hidden : {"/x1", "/x2", "not shown"})
    EXPECT_EQ(output.text.find(hidden), std::string::npos) << output.text;
}

TEST(RunCommand, GivesEachJobASecretUnlessThereIsOne) {
  const std::string show = "run -n 2 --no-prefix -- sh -c 'echo $RONDO_SECRET'";
  const std::string first = rondo("", show).text, second = rondo("", show).text;
  ASSERT_EQ(first.size(), 2 * 65U) << first;
  EXPECT_EQ(first.substr(0, 65), first.substr(65)) << "one for all ranks";
  EXPECT_NE(first, second);
  EXPECT_EQ(rondo("RONDO_SECRET=mine", show).text, "mine\nmine\n");
}

}  // namespace
