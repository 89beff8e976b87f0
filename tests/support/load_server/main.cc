// The load server as a process: prints where it listens, serves until its standard input ends.
//
//     tinker_load_server [--poll-ms MIN-MAX] [--client-config JSON] [--fault PLAN]
//                        [--fault-path SUFFIX] [--fault-count N] [--seed N] [--max-streams N]

#include <charconv>
#include <cstdio>
#include <string_view>

#include <sys/resource.h>
#include <unistd.h>

#include "support/load_server/load_server.h"

namespace tinker::load_server {
namespace {

template <typename Number>
bool read_number(std::string_view text, Number& out) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  return std::from_chars(begin, end, out).ptr == end;
}

bool read_option(std::string_view name, std::string_view value, ServerOptions& options) {
  if (name == "--client-config") {
    options.client_config = value;
  } else if (name == "--fault") {
    options.fault = value;
  } else if (name == "--fault-path") {
    options.fault_path = value;
  } else if (name == "--fault-count") {
    return read_number(value, options.fault_count);
  } else if (name == "--seed") {
    return read_number(value, options.seed);
  } else if (name == "--max-streams") {
    return read_number(value, options.max_streams);
  } else if (name == "--poll-ms") {
    std::int64_t min = 0;
    std::int64_t max = 0;
    const auto dash = std::min(value.find('-'), value.size() - 1);
    if (!read_number(value.substr(0, dash), min)) return false;
    if (!read_number(value.substr(dash + 1), max)) return false;
    options.poll_min = std::chrono::milliseconds(min);
    options.poll_max = std::chrono::milliseconds(max);
  } else {
    return false;
  }
  return true;
}

void raise_descriptor_limit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int run(int count, char** arguments) {
  ServerOptions options;
  for (int i = 1; i < count; i += 2) {
    const bool has_value = i + 1 < count;
    if (!has_value || !read_option(arguments[i], arguments[i + 1], options)) {
      std::fprintf(stderr, "tinker_load_server: cannot use option %s\n", arguments[i]);
      return 2;
    }
  }
  raise_descriptor_limit();
  LoadServer server(std::move(options));
  std::printf("plain %s\ntls %s\nca %s\n",
              server.url().c_str(),
              server.tls_url().c_str(),
              server.ca_file().c_str());
  std::fflush(stdout);
  server.run(STDIN_FILENO);
  return 0;
}

}  // namespace
}  // namespace tinker::load_server

int main(int count, char** arguments) {
  return tinker::load_server::run(count, arguments);
}
