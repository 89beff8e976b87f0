// A program of somebody else that links everything: a server, and a client and an engine beside it.
#include <iostream>

#include <tinker/engine.h>
#include <tinker/local_server.h>
#include <tinker/tinker.h>

namespace {

/// The number of tokens that a client of a server of its own draws.
tinker::Result<std::size_t> sample() {
  TINKER_TRY(const auto server,
             tinker::LocalServer::start({.model = "random:1x32,vocab=300", .threads = 1}));
  TINKER_TRY(const auto service,
             tinker::ServiceClient::connect(
                 {.base_url = server.base_url(), .api_key = tinker::Secret("tml-local")}));
  TINKER_TRY(const auto sampler, service.create_sampling_client({.base_model = "random"}).get());
  TINKER_TRY(const auto drawn,
             sampler.sample(tinker::ModelInput::from_tokens({1, 2, 3}), {.max_tokens = 1}).get());
  TINKER_TRY(server.stop());
  return drawn.sequences.at(0).tokens.size();
}

}  // namespace

int main() {
  const auto engine = tinker::Engine::load("/nowhere/model");
  const auto tokens = sample();
  if (!tokens) {
    std::cerr << tokens.error() << '\n';
    return 1;
  }
  std::cout << "tinker " << tinker::version() << ": "
            << (engine.ok() ? "a model from nowhere" : "no model")
            << ", tokens of a server here: " << *tokens << '\n';
}
