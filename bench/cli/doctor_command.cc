// SPDX-License-Identifier: Apache-2.0
// rondo doctor: prints one line per finding, and the remedies of warnings and problems.
#include <fmt/format.h>

#include "base/json.h"
#include "base/printable.h"
#include "bench/cli/commands.h"
#include "bench/cli/doctor_checks.h"
#include "bench/cli/self_test.h"
#include "bench/command_line.h"
#include "bench/standard_output.h"

namespace rondo::cli {
namespace {

int check_machine(const ExamineOptions& options, bool strict, bool json) {
  const bool colours = shows_colours();
  int problems = 0, warnings = 0;
  Json findings = Json::array();
  for (const Finding& finding : examine(options)) {
    problems += finding.verdict == Verdict::kProblem;
    warnings += finding.verdict == Verdict::kWarning;
    if (json) {
      findings.push_back({{"verdict", name_of(finding.verdict)},
                          {"subject", finding.subject},
                          {"found", finding.text},
                          {"remedy", finding.remedy}});
      continue;
    }
    fmt::print("{}", line_of(finding, colours));
  }
  const int status = problems > 0 || (strict && warnings > 0) ? 1 : 0;
  if (json) {
    const Json document{
        {"problems", problems}, {"warnings", warnings}, {"findings", std::move(findings)}};
    fmt::print("{}\n", document.text(2));
    return status;
  }
  fmt::print("{}, {}\n", counted(problems, "problem"), counted(warnings, "warning"));
  return status;
}

}  // namespace

int doctor_command(int argc, char** argv) {
  ExamineOptions options;
  SelfTestCommand self_test;
  bool strict = false, json = false, test = false;
  CommandLine line(
      "Checks this machine for problems that make Rondo fail or run slowly, and says what to do.\n"
      "With --self-test it also runs every collective, type and algorithm, checks the results\n"
      "and measures every link. It starts the ranks itself, or is one of them where srun, mpirun,\n"
      "torchrun or rondo run started it.\n"
      "Exits with 1 if there is a problem (with --strict: or a warning), else 0.",
      argc, argv, kUsageError);
  line.option("--ranks", options.ranks, "number of ranks planned for this host").within(1, 65536);
  line.flag("--strict", strict, "warnings count as problems");
  line.flag("--json", json, "print JSON");
  const CommandOption tested =
      line.flag("--self-test", test, "run collectives and measure links: a new cluster's test");
  line.option("--minutes", self_test.minutes,
              "repeat the self-test for this number of minutes; default: once")
      .within(0.0, 100'000.0)
      .needs(tested);
  line.flag("--quick", self_test.quick, "test float32 only: every algorithm and every link")
      .needs(tested);
  line.option("--hosts", self_test.hosts,
              "A,B,...: start --ranks ranks on each of these hosts by ssh")
      .commas()
      .needs(tested);
  line.option("--agent", self_test.agent, "start ranks by this command HOST COMMAND")
      .needs(tested)
      .show_default();
  if (const auto ended = line.parse()) return *ended;
  if (test) {
    self_test.ranks = options.ranks;
    self_test.strict = strict, self_test.json = json;
    const auto result = run_self_test_command(self_test);
    return result.ok() ? *result : line.refuse(result.error().text);
  }
  return check_machine(options, strict, json);
}

}  // namespace rondo::cli
