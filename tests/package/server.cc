// A program of somebody else that links the embedded server alone.
#include <iostream>

#include <tinker/local_server.h>
#include <tinker/version.h>

int main() {
  const auto server = tinker::LocalServer::start({.model = "random:1x32,vocab=300"});
  const bool is_up = server.ok() && server->stop().ok();
  std::cout << "tinker " << tinker::version() << ": "
            << (is_up ? "a server came and went" : "no server") << '\n';
}
