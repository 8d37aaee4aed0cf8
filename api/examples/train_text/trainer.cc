// SPDX-License-Identifier: Apache-2.0
#include "trainer.h"

#include <signal.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "hash.h"
#include "shards.h"

namespace train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A rank sends this instead of its number of steps if it cannot take part.
constexpr std::int64_t kCannot = -2;

}  // namespace

Trainer::Trainer(const Options& options, const Text& text, Team& team)
    : options_(options),
      text_(text),
      team_(team),
      model_({text.vocabulary(), options.context, options.embedding, options.hidden}),
      facts_{options.batch,     options.shards, options.context,
             options.embedding, options.hidden, text.vocabulary(),
             options.seed,      text.hash(),    options.learning_rate},
      pool_(options.threads),
      log_(options.log_json),
      buckets_(make_buckets(model_, static_cast<std::size_t>(options.bucket_kib) << 10)),
      state_(3 * model_.size()),
      gradients_(model_.size()) {}

State Trainer::state() {
  float* all = state_.data();
  return {all, all + model_.size(), all + 2 * model_.size()};
}

std::uint64_t Trainer::fingerprint() const {
  const std::int64_t more[] = {options_.steps, options_.bucket_kib};
  return fnv1a(more, sizeof more, fnv1a(&facts_, sizeof facts_));
}

int Trainer::run() {
  for (;;) {
    switch (train()) {
      case Outcome::kDone:
        if (leads()) summarize();
        return save_failed_ ? 1 : 0;
      case Outcome::kStop:
        return 1;
      case Outcome::kDeath:
        if (!team_.recover()) return 1;
    }
  }
}

Trainer::Outcome Trainer::train() {
  if (const Outcome aligned = align(); aligned != Outcome::kDone) return aligned;
  deal_shards();
  save_if_due(completed_ == options_.steps);  // if the writer died before it saved
  while (completed_ < options_.steps) {
    if (const Outcome outcome = step(); outcome != Outcome::kDone) return outcome;
    save_if_due(completed_ == options_.steps);
  }
  // No rank leaves before all have the last step, else a rank without it must recover alone.
  team_.barrier();
  return team_.finish() == ncclSuccess ? Outcome::kDone : Outcome::kDeath;
}

// ---- Bringing all ranks to one step ----

bool Trainer::become_first() {
  if (options_.resume) {
    const std::string error = load_checkpoint(options_.checkpoint, facts_, &completed_, &state_);
    if (error.empty()) {
      saved_ = completed_;
      std::printf("resumed from %s at step %lld\n", options_.checkpoint.c_str(),
                  static_cast<long long>(completed_));
      return true;
    }
    std::fprintf(stderr, "train_text: %s\n", error.c_str());
    return false;
  }
  std::fill(state_.begin(), state_.end(), 0.0f);
  model_.initialize(options_.seed, state_.data());
  completed_ = 0;
  return true;
}

Trainer::Outcome Trainer::align() {
  bool can = true;
  if (leads() && completed_ < 0) can = become_first();
  if (leads() && can && !leading_) {
    const std::string error = log_.take_over(completed_);
    if (!error.empty()) std::fprintf(stderr, "train_text: %s\n", error.c_str());
    can = leading_ = error.empty();
  }
  const std::uint64_t mine[2] = {static_cast<std::uint64_t>(can ? completed_ : kCannot),
                                 fingerprint()};
  std::vector<std::uint64_t> all(2 * static_cast<std::size_t>(team_.size()));
  team_.gather(mine, 2, all.data());
  if (team_.finish() != ncclSuccess) return Outcome::kDeath;
  int furthest = 0;
  bool equal = true;
  for (int r = 0; r < team_.size(); ++r) {
    const auto steps = static_cast<std::int64_t>(all[2 * r]);
    if (steps == kCannot) return Outcome::kStop;
    if (all[2 * r + 1] != all[1]) {
      if (leads())
        std::fprintf(stderr, "train_text: rank %d runs with other options or another text\n", r);
      return Outcome::kStop;
    }
    equal &= all[2 * r] == all[0];
    if (steps > static_cast<std::int64_t>(all[2 * furthest])) furthest = r;
  }
  if (!equal)
    if (const Outcome outcome = fetch_state(furthest); outcome != Outcome::kDone) return outcome;
  if (leads() && gone_ < team_.gone().size()) {
    const std::vector<int>& gone = team_.gone();
    std::string dead;
    for (std::size_t i = gone_; i < gone.size(); ++i)
      dead += (dead.empty() ? "" : ", ") + std::to_string(gone[i]);
    std::printf("without rank %s (of the first %d): %d go on after step %lld\n", dead.c_str(),
                team_.first_size(), team_.size(), static_cast<long long>(completed_));
    std::printf("  (the team until then said: %s)\n", team_.last_fault().c_str());
    std::fflush(stdout);
    log_.write_shrink(completed_, static_cast<int>(gone.size() - gone_), team_.size());
  }
  gone_ = team_.gone().size();
  return Outcome::kDone;
}

// Uses a separate buffer, so that a failed broadcast does not leave a partial state.
Trainer::Outcome Trainer::fetch_state(int root) {
  struct Progress {
    std::int64_t completed;
    double loss;
  } progress{completed_, loss_};
  std::vector<float> received = state_;
  team_.broadcast(received.data(), received.size() * sizeof(float), root);
  team_.broadcast(&progress, sizeof progress, root);
  if (team_.finish() != ncclSuccess) return Outcome::kDeath;
  if (completed_ == progress.completed) return Outcome::kDone;
  const bool behind = completed_ >= 0;
  state_ = std::move(received);
  completed_ = progress.completed;
  loss_ = progress.loss;
  StepReport missed;
  missed.step = completed_, missed.loss = loss_, missed.ranks = team_.size();
  if (behind) report(missed);
  return Outcome::kDone;
}

void Trainer::deal_shards() {
  const ShardRange mine = shards_of(team_.rank(), team_.size(), options_.shards);
  std::size_t largest = 0;
  for (const Bucket& bucket : buckets_) largest = std::max(largest, bucket.count);
  first_shard_ = mine.begin;
  shards_.clear();
  parts_.clear();
  for (int s = 0; s < mine.count(); ++s) {
    shards_.push_back(model_.make_shard(options_.batch / options_.shards));
    parts_.emplace_back(largest);
  }
}

// ---- One step ----

Trainer::Outcome Trainer::step() {
  const auto start = Clock::now();
  const float* parameters = state_.data();
  const float scale = 1.0f / static_cast<float>(options_.batch);
  model_.prepare(parameters);
  pool_.for_each(static_cast<int>(shards_.size()), [&](int s) {
    Shard& shard = shards_[s];
    const int size = static_cast<int>(shard.samples.size());
    for (int i = 0; i < size; ++i)
      shard.samples[i] = text_.sample(options_.seed, completed_ + 1, (first_shard_ + s) * size + i);
    model_.forward(parameters, scale, shard);
  });
  std::vector<double> losses;
  for (const Shard& shard : shards_) losses.push_back(shard.loss);
  sum_in_tree(static_cast<int>(losses.size()),
              [&](int into, int from) { losses[into] += losses[from]; });
  double loss = losses[0];
  team_.sum(&loss, 1);
  backward();
  const auto waiting = Clock::now();
  if (team_.finish() != ncclSuccess) return Outcome::kDeath;
  const double exposed = seconds_since(waiting);
  adam_update(state(), gradients_.data(), model_.size(), completed_ + 1, options_.learning_rate);
  ++completed_;
  ++steps_here_;
  loss_ = loss / options_.batch;
  const double seconds = seconds_since(start);
  seconds_ += seconds;
  exposed_ += exposed;
  report({completed_, loss_, options_.batch / seconds, exposed, team_.size()});
  return Outcome::kDone;
}

void Trainer::backward() {
  const int shards = static_cast<int>(shards_.size());
  std::size_t next = 0;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (; next < buckets_.size() && buckets_[next].layer == layer; ++next)
      reduce_bucket(buckets_[next], next == 0);
    if (layer < kDenseLayers)
      pool_.for_each(shards, [&](int s) { model_.input_gradient(layer, shards_[s]); });
  }
}

void Trainer::reduce_bucket(const Bucket& bucket, bool first) {
  const int shards = static_cast<int>(shards_.size());
  float* sum = gradients_.data() + bucket.offset;
  const auto part = [&](int s) { return s == 0 ? sum : parts_[s].data(); };
  pool_.for_each(shards, [&](int s) {
    if (bucket.layer == kEmbedding)
      model_.embedding_gradient(shards_[s], part(s));
    else
      model_.weight_gradient(bucket.layer, bucket.begin, bucket.end, shards_[s], part(s));
  });
  sum_in_tree(shards, [&](int into, int from) {
    float* to = part(into);
    const float* more = part(from);
    for (std::size_t i = 0; i < bucket.count; ++i) to[i] += more[i];
  });
  team_.sum(sum, bucket.count);
  if (!first) return;
  for (const Kill& kill : options_.kills)
    if (kill.rank == team_.first_rank() && kill.step == completed_ + 1) raise(SIGKILL);
}

// ---- Reports and checkpoints ----

void Trainer::save_if_due(bool last) {
  const bool due = completed_ > 0 && (last || completed_ % options_.checkpoint_every == 0);
  if (!leads() || options_.checkpoint.empty() || !due || saved_ == completed_) return;
  const std::string error = save_checkpoint(options_.checkpoint, facts_, completed_, state_);
  save_failed_ = !error.empty();
  if (save_failed_) {
    std::fprintf(stderr, "train_text: %s\n", error.c_str());
  } else {
    saved_ = completed_;
  }
}

void Trainer::report(const StepReport& of_step) {
  log_.remember(of_step);
  log_.forget_before(of_step.step - 1);  // peers are at most one step apart
  if (!leads()) return;
  log_.write(of_step);
  if (completed_ != 1 && completed_ % options_.log_every != 0) return;
  const double seconds = seconds_ - seconds_reported_;
  const std::int64_t steps = steps_here_ - steps_reported_;
  if (steps == 0 || seconds <= 0) return;
  std::printf("step %6lld  loss %.4f  %8.0f tokens/s  exposed communication %4.1f %%\n",
              static_cast<long long>(completed_), loss_,
              static_cast<double>(steps) * options_.batch / seconds,
              100 * (exposed_ - exposed_reported_) / seconds);
  std::fflush(stdout);
  seconds_reported_ = seconds_, exposed_reported_ = exposed_, steps_reported_ = steps_here_;
}

void Trainer::summarize() const {
  std::printf("done: step %lld, loss %.4f", static_cast<long long>(completed_), loss_);
  if (steps_here_ > 0)
    std::printf(", %.0f tokens/s on %d rank%s, exposed communication %.1f %%",
                static_cast<double>(steps_here_) * options_.batch / seconds_, team_.size(),
                team_.size() == 1 ? "" : "s", 100 * exposed_ / seconds_);
  std::printf("\n");
  if (options_.sample > 0) write_sample();
}

void Trainer::write_sample() const {
  const std::uint8_t* start = text_.sample(options_.seed, 0, 0);
  std::vector<std::uint8_t> context(start, start + options_.context);
  std::string written;
  for (int i = 0; i < options_.sample; ++i) {
    const std::vector<float> logits = model_.predict(state_.data(), context.data());
    double total = 0;
    for (float logit : logits) total += std::exp(static_cast<double>(logit));
    double left = total * uniform_at(options_.seed, static_cast<std::uint64_t>(i));
    int id = 0;
    for (; id + 1 < text_.vocabulary(); ++id)
      if ((left -= std::exp(static_cast<double>(logits[id]))) < 0) break;
    written += text_.character(id);
    context.erase(context.begin());
    context.push_back(static_cast<std::uint8_t>(id));
  }
  std::printf("it writes: %s\n", written.c_str());
}

}  // namespace train
