// Errors are values: every call that can fail returns a Result.

#include <iostream>
#include <string_view>

#include <tinker/tinker.h>

namespace {

tinker::Result<std::string> describe(std::string_view text) {
  TINKER_TRY(const auto path, tinker::TinkerPath::parse(text));
  return "run " + path.training_run_id + ", " + std::string(to_string(path.kind)) +
         " checkpoint '" + path.name + "'";
}

}  // namespace

int main() {
  for (const std::string_view text : {
           "tinker://0f8fad5b:train:0/sampler_weights/eval-3",
           "tinker://0f8fad5b:train:0/eval-3",
       }) {
    const auto description = describe(text);
    std::cout << (description ? *description : "refused: " + description.error().to_string())
              << '\n';
  }
}
