// A program of somebody else that links the SDK and the engine.
#include <iostream>

#include <tinker/engine.h>
#include <tinker/tinker.h>

int main() {
  const auto engine = tinker::Engine::load("/nowhere/model");
  const auto service = tinker::ServiceClient::connect(
      {.base_url = "http://server.test", .api_key = tinker::Secret("tml-key")});
  std::cout << "tinker " << tinker::version() << ": "
            << (engine.ok() ? "a model from nowhere" : "no model")
            << (service.ok() ? ", a client" : ", no client") << '\n';
}
