#include <iostream>

#include <tinker/tinker.h>

int main() {
  const tinker::Datum datum = {
      .model_input = tinker::ModelInput::from_tokens({464, 3139, 286, 4881, 318}),
      .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>{3139, 286, 4881, 318, 6342}},
                         {"weights", std::vector<float>{0, 0, 0, 0, 1}}},
  };
  if (const auto checked = datum.validate(); !checked) {
    std::cerr << checked.error().to_string() << '\n';  // names the input, what was found, expected
    return 1;
  }
  const auto path = tinker::TinkerPath::parse("tinker://0f8fad5b:train:0/weights/step-10");
  std::cout << datum.model_input.length().value() << " positions, saved as " << path.value().name
            << '\n';
}
