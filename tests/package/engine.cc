// A program of somebody else that has the engine and nothing of the SDK.
#include <iostream>

#include <tinker/engine.h>
#include <tinker/version.h>

int main() {
  const auto engine = tinker::Engine::load("/nowhere/model");
  std::cout << "tinker " << tinker::version() << ": "
            << (engine.ok() ? "a model from nowhere" : "no model") << '\n';
}
