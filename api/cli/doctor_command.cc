// rondo doctor: prints one line per finding, and the remedies of warnings and problems.
#include <fmt/format.h>

#include "api/cli/commands.h"
#include "api/cli/doctor_checks.h"
#include "base/json.h"
#include "bench/command_line.h"

namespace rondo::cli {
namespace {

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarning:
      return "warning";
    case Verdict::kProblem:
      break;
  }
  return "problem";
}

}  // namespace

int doctor_command(int argc, char** argv) {
  ExamineOptions options;
  bool strict = false, json = false;
  CommandLine line(
      "Checks this machine for problems that make Rondo fail or run slowly, and says what to do.\n"
      "Exits with 1 if there is a problem (with --strict: or a warning), else 0.",
      argc, argv, kUsageError);
  line.option("--ranks", options.ranks, "number of ranks planned for this host").within(1, 65536);
  line.flag("--strict", strict, "warnings count as problems");
  line.flag("--json", json, "print JSON");
  if (const auto ended = line.parse()) return *ended;
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
    fmt::print("{:<8} {:<20} {}\n", name_of(finding.verdict), finding.subject, finding.text);
    if (!finding.remedy.empty()) fmt::print("{:<29} -> {}\n", "", finding.remedy);
  }
  const int status = problems > 0 || (strict && warnings > 0) ? 1 : 0;
  if (json) {
    const Json document{
        {"problems", problems}, {"warnings", warnings}, {"findings", std::move(findings)}};
    fmt::print("{}\n", document.text(2));
    return status;
  }
  fmt::print("{} problem{}, {} warning{}\n", problems, problems == 1 ? "" : "s", warnings,
             warnings == 1 ? "" : "s");
  return status;
}

}  // namespace rondo::cli
