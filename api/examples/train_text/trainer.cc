// SPDX-License-Identifier: Apache-2.0
#include "trainer.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace train {
namespace {

using Clock = std::chrono::steady_clock;

// A rank sends this instead of its number of steps if it cannot take part.
constexpr long kCannot = -2;
constexpr double kLearningRate = 0.003;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A checkpoint: this, then the state as float32, little endian.
struct Header {
  char magic[8] = {'R', 'N', 'D', 'T', 'E', 'X', 'T', '2'};
  std::uint64_t facts = 0;
  std::int64_t step = 0;
  std::uint64_t checksum = 0;  // of facts, step and the state
};

std::uint64_t checksum_of(const Header& header, const std::vector<float>& state) {
  return hash_of(state.data(), state.size() * sizeof(float),
                 hash_of(&header.facts, sizeof header.facts + sizeof header.step));
}

}  // namespace

Trainer::Trainer(const Options& options, const Text& text, Team& team)
    : options_(options),
      text_(text),
      team_(team),
      model_({text.vocabulary(), static_cast<int>(options.context),
              static_cast<int>(options.embedding), static_cast<int>(options.hidden)}),
      state_(3 * model_.size()),
      gradients_(model_.size()) {}

int Trainer::run() {
  for (;;) {
    std::fflush(stdout);
    switch (train()) {
      case Outcome::kDone:
        if (team_.rank() == 0)
          std::printf("done: step %ld, loss %.4f, parameters %016llx\n", completed_, loss_,
                      static_cast<unsigned long long>(
                          hash_of(state_.data(), model_.size() * sizeof(float))));
        return failed_ ? 1 : 0;
      case Outcome::kStop:
        return 1;
      case Outcome::kDeath:
        if (!team_.recover()) return 1;
    }
  }
}

Trainer::Outcome Trainer::train() {
  if (const Outcome aligned = align(); aligned != Outcome::kDone) return aligned;
  mine_ = team_.share_of(static_cast<int>(options_.shards));
  passes_.clear();
  for (int s = 0; s < mine_.count; ++s)
    passes_.push_back(model_.make_pass(static_cast<int>(options_.batch / options_.shards)));
  parts_.resize(model_.size() * passes_.size());
  losses_.resize(passes_.size());
  for (;;) {
    const bool due = completed_ == options_.steps || completed_ % options_.checkpoint_every == 0;
    if (due && completed_ > 0 && team_.rank() == 0) save();
    if (completed_ == options_.steps) break;
    if (!step()) return Outcome::kDeath;
  }
  // No rank leaves before all have the last step, else a rank without it must recover alone.
  team_.barrier();
  return team_.finish() ? Outcome::kDone : Outcome::kDeath;
}

Trainer::Outcome Trainer::align() {
  if (team_.rank() == 0 && completed_ == -1 && !begin()) completed_ = kCannot;
  std::vector<std::int64_t> completed;
  const std::int64_t mine = completed_;
  team_.gather(mine, &completed);
  if (!team_.finish()) return Outcome::kDeath;
  if (std::count(completed.begin(), completed.end(), kCannot) > 0) return Outcome::kStop;
  const auto furthest = std::max_element(completed.begin(), completed.end());
  if (*std::min_element(completed.begin(), completed.end()) == *furthest) return Outcome::kDone;
  std::vector<float> state = state_;  // apart: a failed broadcast must leave this rank's own
  double loss = loss_;
  const int root = static_cast<int>(furthest - completed.begin());
  team_.broadcast(state.data(), state.size() * sizeof(float), root);
  team_.broadcast(&loss, sizeof loss, root);
  if (!team_.finish()) return Outcome::kDeath;
  state_ = std::move(state), loss_ = loss, completed_ = *furthest;
  return Outcome::kDone;
}

// ---- One step ----

bool Trainer::step() {
  const auto start = Clock::now();
  model_.prepare(state_.data());
  for (std::size_t s = 0; s < passes_.size(); ++s) {
    Pass& pass = passes_[s];
    const long first =
        (mine_.first + static_cast<long>(s)) * static_cast<long>(pass.samples.size());
    for (std::size_t i = 0; i < pass.samples.size(); ++i)
      pass.samples[i] = text_.sample(static_cast<std::uint64_t>(options_.seed), completed_ + 1,
                                     first + static_cast<long>(i));
    model_.forward(state_.data(), pass);
    losses_[s] = pass.loss;
  }
  double loss = 0;
  team_.average(losses_.data(), &loss, 1, mine_);
  for (int l = 0; l < kLayers; ++l) {
    const Layer& layer = model_.layer(l);
    float* const parts = parts_.data() + layer.offset * passes_.size();
    for (std::size_t s = 0; s < passes_.size(); ++s)
      model_.backward(l, passes_[s], parts + s * layer.size());
    team_.average(parts, gradients_.data() + layer.offset, layer.size(), mine_);
    for (const Kill& kill : options_.kills)
      if (l == 0 && kill.rank == team_.first_rank() && kill.step == completed_ + 1) raise(SIGKILL);
  }
  const auto waiting = Clock::now();
  if (!team_.finish()) return false;
  const double exposed = seconds_since(waiting);
  update();
  loss_ = loss;
  report(seconds_since(start), exposed);
  return true;
}

void Trainer::update() {
  constexpr float kMean = 0.9f, kVariance = 0.999f, kLeast = 1e-8f;
  const auto t = static_cast<double>(++completed_);
  const auto rate = static_cast<float>(kLearningRate / (1 - std::pow(0.9, t)));
  const auto correction = static_cast<float>(1 / (1 - std::pow(0.999, t)));
  float* const mean = state_.data() + model_.size();
  float* const variance = mean + model_.size();
  for (std::size_t i = 0; i < model_.size(); ++i) {
    const float g = gradients_[i];
    mean[i] = kMean * mean[i] + (1 - kMean) * g;
    variance[i] = kVariance * variance[i] + (1 - kVariance) * g * g;
    state_[i] -= rate * mean[i] / (std::sqrt(variance[i] * correction) + kLeast);
  }
}

void Trainer::report(double seconds, double exposed) {
  if (team_.rank() != 0 || (completed_ != 1 && completed_ % options_.log_every != 0)) return;
  std::printf("step %6ld  loss %.9g  %8.0f tokens/s  exposed communication %4.1f %%\n", completed_,
              loss_, static_cast<double>(options_.batch) / seconds, 100 * exposed / seconds);
  std::fflush(stdout);
}

// ---- Checkpoints ----

std::uint64_t Trainer::facts() const {
  const std::uint64_t all[] = {text_.hash(),
                               static_cast<std::uint64_t>(options_.batch),
                               static_cast<std::uint64_t>(options_.shards),
                               static_cast<std::uint64_t>(options_.context),
                               static_cast<std::uint64_t>(options_.embedding),
                               static_cast<std::uint64_t>(options_.hidden),
                               static_cast<std::uint64_t>(options_.seed)};
  return hash_of(all, sizeof all);
}

// Beside the old one, flushed, then renamed: a crash leaves the old checkpoint or the new one.
void Trainer::save() {
  if (options_.checkpoint.empty() || saved_ == completed_) return;
  Header header;
  header.facts = facts(), header.step = completed_;
  header.checksum = checksum_of(header, state_);
  const std::string beside = options_.checkpoint + ".tmp";
  std::FILE* const file = std::fopen(beside.c_str(), "wbe");
  const bool written =
      file != nullptr && std::fwrite(&header, sizeof header, 1, file) == 1 &&
      std::fwrite(state_.data(), sizeof(float), state_.size(), file) == state_.size() &&
      std::fflush(file) == 0 && fsync(fileno(file)) == 0;
  const bool closed = file != nullptr && std::fclose(file) == 0;
  failed_ = !written || !closed || std::rename(beside.c_str(), options_.checkpoint.c_str()) != 0;
  if (!failed_)
    saved_ = completed_;
  else
    std::fprintf(stderr, "train_text: cannot write %s: %s\n", beside.c_str(), std::strerror(errno));
}

bool Trainer::begin() {
  completed_ = 0;
  if (!options_.resume) {
    model_.initialize(static_cast<std::uint64_t>(options_.seed), state_.data());
    return true;
  }
  const auto refuse = [&](const char* why) {
    std::fprintf(stderr, "train_text: checkpoint %s %s\n", options_.checkpoint.c_str(), why);
    return false;
  };
  std::FILE* const file = std::fopen(options_.checkpoint.c_str(), "rbe");
  if (file == nullptr) return refuse("cannot be opened; leave out --resume to start anew");
  Header header;
  std::memset(header.magic, 0, sizeof header.magic);  // a file may be shorter
  const bool whole = std::fread(&header, sizeof header, 1, file) == 1 &&
                     std::fread(state_.data(), sizeof(float), state_.size(), file) == state_.size();
  std::fclose(file);
  if (std::memcmp(header.magic, Header().magic, sizeof header.magic) != 0)
    return refuse("is none of this program");
  if (header.facts != facts()) return refuse("is of a run with other options or another text");
  if (!whole || header.checksum != checksum_of(header, state_) || header.step < 0)
    return refuse("is corrupt: its checksum is wrong");
  completed_ = saved_ = header.step;
  std::printf("resumed from %s at step %ld\n", options_.checkpoint.c_str(), completed_);
  return true;
}

}  // namespace train
