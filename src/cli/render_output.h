#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tinker/renderer.h"
#include "wire/json_writer.h"

// How `tinker render` shows tokens.
namespace tinker::cli {

/// An example on standard output: in colours, or with brackets around what is trained.
void print_example(const Renderer& renderer, const SupervisedExample& example);
/// The same for a prompt.
void print_prompt(const Renderer& renderer, const ModelInput& prompt);

/// Members of the open object: "renderer" and "stop".
void write_renderer(wire::JsonWriter& writer, const Renderer& renderer);
/// All tokens as a list; 0 stands where an image is.
void write_tokens(wire::JsonWriter& writer, const ModelInput& input);

/// Where two token sequences differ first, each with some text before and behind.
std::string shown_difference(const Tokenizer& tokenizer,
                             std::span<const std::int32_t> tokens,
                             std::size_t at);

}  // namespace tinker::cli
