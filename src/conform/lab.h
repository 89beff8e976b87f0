#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "conform/sampler.h"

namespace tinker::conform {

/// A short text whose tokens any vocabulary has, no two of them alike.
const Tokens& reference_text();
/// How many of its tokens have a predecessor: the positions of a datum made of it.
std::size_t reference_positions();

/// The reference text as a datum of cross_entropy, with these weights.
Datum weighted(const Numbers& weights);
/// The same, all weights equal.
Datum weighted(double weight);
/// The reference text as a datum of a policy loss.
Datum policy(const Numbers& q, const Numbers& advantages);

/// "[-1.5, 0.25]", four digits each.
std::string text_of(const Numbers& values);
std::string text_of(const Tokens& tokens);

/// Whether numbers are the same within the server's precision; the error says by how much they
/// differ.
Result<void> expect_same(const Probe& probe,
                         std::string_view what,
                         const Numbers& found,
                         const Numbers& expected);
/// Whether `found` is within `part` of `expected`.
Result<void> expect_near(std::string_view what, double found, double expected, double part);

Numbers difference(const Numbers& a, const Numbers& b);
double dot(const Numbers& a, const Numbers& b);
double largest(const Numbers& values);  ///< By magnitude.

/// Parameters that make AdamW gradient descent: eps is so large that nothing is normalised. The
/// learning rate is one that moves the logprobs of the reference text visibly but not far; it is
/// found once for each server.
Result<AdamParams> descent(Probe& probe);
/// Parameters of a normalised step that moves them as far.
Result<AdamParams> adam(Probe& probe);

/// How the logprobs of the reference text move when these gradients are added up and one step of
/// gradient descent follows, from a fresh model.
Result<Numbers> effect(Probe& probe, std::vector<ForwardBackwardRequest> gradients);
/// Logprobs of the reference text from a fresh model.
Result<Numbers> fresh_logprobs(Probe& probe);
/// Whether two gradients do the same to the model.
Result<void> expect_same_effect(std::string_view what,
                                const Numbers& found,
                                const Numbers& expected,
                                double tolerance);

}  // namespace tinker::conform
