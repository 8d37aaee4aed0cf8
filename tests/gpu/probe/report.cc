// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <cmath>
#include <cstdio>
#include <fstream>

namespace probe {

void Report::expect(const Question& question) { cannot(question, "not run", ""); }

void Report::set_device(Json device, const std::string& why_none) {
  device_ = std::move(device);
  why_none_ = why_none;
}

void Report::cannot(const Question& question, const std::string& status,
                    const std::string& reason) {
  Outcome outcome;
  outcome.status = status;
  outcome.reason = reason;
  add(question, outcome);
}

void Report::add(const Question& question, const Outcome& outcome) {
  Json& at = probes_[question.name];
  at = {{"status", outcome.status},
        {"seconds", std::round(outcome.seconds * 1e3) / 1e3},
        {"limit", question.seconds},
        {"asks", question.asks},
        {"relied_on_by", question.relied_on_by}};
  if (!outcome.reason.empty()) at["reason"] = outcome.reason;
  if (!outcome.answer.empty()) at["answer"] = outcome.answer;
  at["values"] = outcome.values;
  at["checked"] = outcome.checked;
}

Json Report::assumptions() const {
  Json all = Json::array();
  for (const Assumption& assumption : kAssumptions) {
    if (!probes_.contains(assumption.question)) continue;
    Json line = {{"assumption", assumption.sentence},
                 {"holds", nullptr},
                 {"relied_on_by", assumption.relied_on_by},
                 {"probe", assumption.question}};
    const Json& checked = probes_[assumption.question]["checked"];
    if (checked.contains(assumption.name)) {
      line["holds"] = checked[assumption.name]["holds"];
      line["seen"] = checked[assumption.name]["seen"];
    } else {
      line["seen"] =
          "the probe did not say: " + probes_[assumption.question]["status"].get<std::string>();
    }
    all.push_back(line);
  }
  return all;
}

std::string Report::text(double seconds) const {
  Json document = {{"format", 1},
                   {"device", device_},
                   {"seconds", std::round(seconds * 1e3) / 1e3},
                   {"probes", probes_}};
  if (!why_none_.empty()) document["reason"] = why_none_;
  document["assumptions"] = assumptions();
  return document.dump(1, ' ', true, Json::error_handler_t::replace);
}

void Report::save(const std::string& path, double seconds) const {
  const std::string fresh = path + ".new";
  bool written = false;
  {
    std::ofstream file(fresh);
    file << text(seconds) << '\n';
    written = static_cast<bool>(file.flush());
  }
  if (!written || std::rename(fresh.c_str(), path.c_str()) != 0)
    std::fprintf(stderr, "gpu_probe: %s cannot be written\n", path.c_str());
}

void Report::print_assumptions() const {
  int unknown = 0;
  for (const Json& line : assumptions()) {
    if (line["holds"].is_null()) {
      ++unknown;
      continue;
    }
    std::fprintf(stderr, "%s  %s: %s [%s]\n", line["holds"].get<bool>() ? "holds   " : "DOES NOT",
                 line["assumption"].get<std::string>().c_str(),
                 line["seen"].get<std::string>().c_str(),
                 line["relied_on_by"].get<std::string>().c_str());
  }
  if (unknown > 0) std::fprintf(stderr, "unknown: %d assumptions more\n", unknown);
}

bool Report::all_answered() const {
  for (const auto& item : probes_.items()) {
    const std::string status = item.value()["status"];
    if (status != "ok" && status != "unsupported") return false;
  }
  return true;
}

}  // namespace probe
