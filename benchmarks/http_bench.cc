// What a request costs through ApiClient and the real transport. `./dev bench http` (run.py) runs
// this beside the official SDK (http_peer.py) on the same server. One measurement per process:
//
//     http_bench URL CA_FILE small|poll IN_FLIGHT REQUESTS
//
// small: submits samples with a prompt of 16 tokens, IN_FLIGHT at a time; JSON out, JSON in.
// poll: long polls for results, answered when the server likes; protobuf in.
// Prints requests, seconds, CPU seconds of this process and its largest memory as JSON.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <sys/resource.h>

#include "api/api_client.h"
#include "async/asio_loop.h"
#include "async/runtime_core.h"
#include "cpu_time.h"
#include "http/asio_transport.h"
#include "tinker/types/promise.h"
#include "tinker/types/sample.h"
#include "wire/json.h"
#include "wire/proto.h"

namespace tinker {
namespace {

using async::Task;

class Token final : public api::TokenProvider {
 public:
  Task<Secret> token() override { co_return Secret("tml-benchmark"); }
};

/// What all workers share. Loop thread only.
struct Load {
  std::shared_ptr<api::ApiClient> api;
  std::shared_ptr<api::TokenProvider> tokens = std::make_shared<Token>();
  std::size_t left = 0;
};

Result<api::Call> sample_call() {
  const SampleRequest request = {
      .prompt = ModelInput::from_tokens({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}),
      .sampling_params = {.max_tokens = 64, .temperature = 0.7},
      .sampling_session_id = "session:sample:0",
      .seq_id = 0,
      .prompt_logprobs = false,
  };
  TINKER_TRY(std::string body, wire::encode_json(request));
  return api::Call{.path = "/api/v1/asample",
                   .body = std::make_shared<const std::string>(std::move(body)),
                   .pool = api::PoolKind::sample,
                   .max_retries = 0};
}

Task<> submit_sample(std::shared_ptr<Load> load) {
  TINKER_CO_TRY(auto call, sample_call());
  auto answer = load->api->call(std::move(call), load->tokens);
  TINKER_CO_TRY(const auto response, co_await std::move(answer));
  TINKER_CO_TRY(const auto promise, wire::decode_json<UntypedApiFuture>(response.body));
  co_return Result<void>();
}

Result<api::Call> poll_call() {
  const FutureRetrieveRequest request = {.request_id = "r-1-1", .allow_metadata_only = true};
  TINKER_TRY(std::string body, wire::encode_json(request));
  return api::Call{.path = "/api/v1/retrieve_future",
                   .body = std::make_shared<const std::string>(std::move(body)),
                   .headers = {{"X-Tinker-Request-Iteration", "0"},
                               {"X-Tinker-Request-Type", "Sample"},
                               {"Accept", "application/x-protobuf"},
                               {"X-Tinker-Create-Promise-Roundtrip-Time", "0.01"}},
                   .pool = api::PoolKind::retrieve_promise,
                   .timeout = std::chrono::seconds(45),
                   .max_retries = 0};
}

Task<> poll_result(std::shared_ptr<Load> load) {
  TINKER_CO_TRY(auto call, poll_call());
  auto answer = load->api->call(std::move(call), load->tokens);
  TINKER_CO_TRY(auto response, co_await std::move(answer));
  TINKER_CO_TRY(const auto sample, wire::decode_proto<SampleResponse>(std::move(response.body)));
  co_return Result<void>();
}

using Work = Task<> (*)(std::shared_ptr<Load>);

/// One request after the other until none is left.
Task<> worker(std::shared_ptr<Load> load, Work work) {
  while (load->left > 0) {
    --load->left;
    auto request = work(load);
    TINKER_CO_TRY(co_await std::move(request));
  }
  co_return Result<void>();
}

Result<void> run(const Runtime& runtime,
                 const std::shared_ptr<Load>& load,
                 Work work,
                 std::size_t in_flight,
                 std::size_t requests) {
  load->left = requests;  // nothing runs on the loop now
  std::vector<Future<void>> workers;
  for (std::size_t i = 0; i < in_flight; ++i) {
    workers.push_back(runtime.core()->spawn(runtime.core()->scope(), worker(load, work)));
  }
  return when_all(std::move(workers)).get();
}

double peak_megabytes() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024e-6;
}

int bench(const std::vector<std::string>& arguments) {
  if (arguments.size() != 6) {
    std::fprintf(stderr, "usage: http_bench URL CA_FILE small|poll IN_FLIGHT REQUESTS\n");
    return 2;
  }
  const Work work = arguments[3] == "poll" ? poll_result : submit_sample;
  const auto in_flight = std::strtoull(arguments[4].c_str(), nullptr, 10);
  const auto requests = std::strtoull(arguments[5].c_str(), nullptr, 10);

  const Runtime runtime = Runtime::start();
  const auto& core = runtime.core();
  const auto load = std::make_shared<Load>();
  load->api = std::make_shared<api::ApiClient>(
      core,
      http::AsioTransport::create(std::dynamic_pointer_cast<async::AsioLoop>(core->loop()),
                                  core->workers(),
                                  {.ca_file = arguments[2]}),
      api::ApiClientOptions{.base_url = arguments[1]});

  // Opens the connections; they are there for the whole life of a client.
  auto result = run(runtime, load, work, in_flight, in_flight);
  const auto start = std::chrono::steady_clock::now();
  const double cpu = cpu_seconds();
  if (result.ok()) result = run(runtime, load, work, in_flight, requests);
  if (!result.ok()) {
    std::fprintf(stderr, "http_bench: %s\n", result.error().to_string().c_str());
    return 1;
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  std::printf(R"({"requests": %llu, "seconds": %.6f, "cpu_seconds": %.6f, "megabytes": %.1f})",
              requests,
              elapsed.count(),
              cpu_seconds() - cpu,
              peak_megabytes());
  return 0;
}

}  // namespace
}  // namespace tinker

int main(int count, char** arguments) {
  return tinker::bench(std::vector<std::string>(arguments, arguments + count));
}
