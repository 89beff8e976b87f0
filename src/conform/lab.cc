#include "conform/lab.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace tinker::conform {

namespace {

constexpr double kEps = 1e6;       // far above any gradient
constexpr double kVisible = 0.15;  // nats

TensorData floats(const Numbers& values) {
  return std::vector<float>(values.begin(), values.end());
}

std::string number_text(double value) {
  std::array<char, 32> out = {};
  const int size = std::snprintf(out.data(), out.size(), "%.4g", value);
  return {out.data(), static_cast<std::size_t>(size)};
}

/// Looks for the learning rate of a step that is visible: steps of growing size on one model.
Result<double> find_learning_rate(Probe& probe, AdamParams params, std::string_view what) {
  constexpr int kMostTries = 14;
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(auto before, model.logprobs(reference_text()));
  for (int i = 0; i < kMostTries; ++i) {
    TINKER_TRY(model.run({.data = {weighted(1.0)}}));
    TINKER_TRY(model.step(params));
    TINKER_TRY(auto after, model.logprobs(reference_text()));
    if (largest(difference(after, before)) > kVisible) return params.learning_rate;
    before = std::move(after);
    params.learning_rate *= 4;
  }
  return broken(base::concat("no learning rate up to ",
                             params.learning_rate / 4,
                             " of ",
                             what,
                             " moved a logprob by ",
                             kVisible));
}

/// The parameters with the learning rate that is noted under `name`, found now if it was not.
Result<AdamParams> calibrated(Probe& probe, AdamParams params, std::string_view name) {
  const auto noted = probe.notes().find(name);
  if (noted != probe.notes().end()) {
    params.learning_rate = noted->second.front();
    return params;
  }
  TINKER_TRY(params.learning_rate, find_learning_rate(probe, params, name));
  probe.notes().emplace(name, Numbers{params.learning_rate});
  return params;
}

}  // namespace

const Tokens& reference_text() {
  static const Tokens text = {72, 101, 108, 112, 32, 119, 111, 114, 100};
  return text;
}

std::size_t reference_positions() {
  return reference_text().size() - 1;
}

Datum weighted(const Numbers& weights) {
  Datum datum = Datum::next_token(reference_text());
  datum.loss_fn_inputs.insert_or_assign("weights", floats(weights));
  return datum;
}

Datum weighted(double weight) {
  return weighted(Numbers(reference_positions(), weight));
}

Datum policy(const Numbers& q, const Numbers& advantages) {
  Datum datum = Datum::next_token(reference_text());
  datum.loss_fn_inputs.erase("weights");
  datum.loss_fn_inputs.insert_or_assign("logprobs", floats(q));
  datum.loss_fn_inputs.insert_or_assign("advantages", floats(advantages));
  return datum;
}

std::string text_of(const Numbers& values) {
  std::string out = "[";
  for (const double value : values) out += (out.size() > 1 ? ", " : "") + number_text(value);
  return out + "]";
}

std::string text_of(const Tokens& tokens) {
  return text_of(Numbers(tokens.begin(), tokens.end()));
}

Numbers difference(const Numbers& a, const Numbers& b) {
  Numbers out(std::min(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = a[i] - b[i];
  return out;
}

double dot(const Numbers& a, const Numbers& b) {
  return std::inner_product(a.begin(),
                            a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())),
                            b.begin(),
                            0.0);
}

double largest(const Numbers& values) {
  double out = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) return std::abs(value);  // NaN compares with nothing
    out = std::max(out, std::abs(value));
  }
  return out;
}

Result<void> expect_same(const Probe& probe,
                         std::string_view what,
                         const Numbers& found,
                         const Numbers& expected) {
  const double most = largest(difference(found, expected));
  if (found.size() == expected.size() && most <= probe.tolerance()) return {};
  return broken(base::concat(what,
                             ": expected ",
                             text_of(expected),
                             ", found ",
                             text_of(found),
                             "; the difference may be ",
                             probe.tolerance()));
}

Result<void> expect_near(std::string_view what, double found, double expected, double part) {
  if (std::abs(found - expected) <= part * std::abs(expected)) return {};
  return broken(base::concat(what,
                             ": expected ",
                             number_text(expected),
                             " within ",
                             number_text(100 * part),
                             " %, found ",
                             number_text(found)));
}

Result<AdamParams> descent(Probe& probe) {
  return calibrated(probe,
                    {.learning_rate = 1e-4 * kEps, .beta1 = 0, .beta2 = 0, .eps = kEps},
                    "gradient descent (AdamW with an eps of 1e6)");
}

Result<AdamParams> adam(Probe& probe) {
  return calibrated(probe, {.learning_rate = 1e-5}, "AdamW");
}

Result<Numbers> fresh_logprobs(Probe& probe) {
  constexpr std::string_view kName = "fresh logprobs";
  if (const auto noted = probe.notes().find(kName); noted != probe.notes().end()) {
    return noted->second;
  }
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(auto out, model.logprobs(reference_text()));
  probe.notes().emplace(kName, out);
  return out;
}

Result<Numbers> effect(Probe& probe, std::vector<ForwardBackwardRequest> gradients) {
  TINKER_TRY(const auto params, descent(probe));
  TINKER_TRY(const auto before, fresh_logprobs(probe));
  TINKER_TRY(auto model, Trainee::create(probe));
  for (auto& gradient : gradients) TINKER_TRY(model.run(std::move(gradient)));
  TINKER_TRY(model.step(params));
  TINKER_TRY(const auto after, model.logprobs(reference_text()));
  return difference(after, before);
}

Result<void> expect_same_effect(std::string_view what,
                                const Numbers& found,
                                const Numbers& expected,
                                double tolerance) {
  constexpr double kPart = 0.05;
  const double most = largest(difference(found, expected));
  if (most <= tolerance + kPart * largest(expected)) return {};
  return broken(base::concat(what,
                             ": expected the logprobs of the reference text to move by ",
                             text_of(expected),
                             ", they moved by ",
                             text_of(found)));
}

}  // namespace tinker::conform
