// A conversation as tokens: what the model reads, what is trained, and the way back. Give it the
// folder of a model, or a tokenizer.json.

#include <iostream>
#include <string>
#include <vector>

#include <tinker/renderer.h>
#include <tinker/response_stream.h>
#include <tinker/training_data.h>

namespace {

// What a model ships as chat_template.jinja, at its shortest.
constexpr std::string_view kTemplate =
    "{% for message in messages %}<|start|>{{ message.role }}\n{{ message.content }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}";

//! [load]
tinker::Result<tinker::Renderer> load(const std::string& model, tinker::Tokenizer tokenizer) {
  if (tinker::renderers_of(model)) return tinker::Renderer::for_model(model, std::move(tokenizer));
  return tinker::Renderer::from_template(kTemplate, std::move(tokenizer));
}
//! [load]

}  // namespace

int main(int argc, char** argv) {
  const auto tokenizer = tinker::Tokenizer::load(argc > 1 ? argv[1] : ".").value();
  const auto renderer = load("my-lab/my-model", tokenizer).value();

  //! [prompt]
  std::vector<tinker::Message> messages = {{.role = "system", .content = "Be brief."},
                                           {.role = "user", .content = "What is 2 + 2?"}};
  const auto prompt = renderer.build_generation_prompt(messages).value();
  std::cout << tokenizer.decode(prompt.to_tokens().value()) << "...\n";
  //! [prompt]

  // As a sampler would give it: SamplingParams{.stop = renderer.stop()} ends it there.
  const auto sampled = tokenizer.encode("It is 4.<|end|>", {.parse_special = true});

  //! [parse]
  const auto parsed = renderer.parse_response(sampled).value();
  if (parsed.termination == tinker::ParseTermination::malformed) {
    std::cout << "cut off: the answer has no end\n";
  }
  std::cout << "answer: " << parsed.message.text() << '\n';
  //! [parse]

  //! [stream]
  tinker::ResponseStream stream(renderer, prompt);
  const auto show = [](const std::vector<tinker::ResponseDelta>& deltas) {
    for (const auto& delta : deltas) {
      const bool is_header = delta.kind == tinker::ResponseDelta::Kind::header;
      std::cout << delta.text << (is_header ? ": " : "|");
    }
  };
  for (const auto token : sampled) show(stream.push(token));
  show(stream.finish());
  std::cout << '\n';
  //! [stream]

  //! [train]
  messages.push_back(parsed.message);
  const auto examples = renderer.build_supervised_examples(messages).value();
  for (const auto& example : examples) {
    const auto tokens = example.input.to_tokens().value();
    std::cout << "trained:";
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (example.weights[i] > 0) std::cout << " [" << tokenizer.decode({&tokens[i], 1}) << ']';
    }
    std::cout << '\n';
  }
  //! [train]

  //! [data]
  const auto row = tinker::parse_data_row(
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]})");
  tinker::DataStatistics found;
  const tinker::RenderOptions options = {.datum = {.max_length = 4096, .statistics = &found}};
  const auto data = tinker::to_data(row.value(), renderer, options).value();
  std::cout << found.trained << " of " << found.tokens << " tokens are trained, " << found.truncated
            << " of " << data.size() << " data are truncated\n";
  //! [data]
}
