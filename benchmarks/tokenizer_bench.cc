// What a tokenizer costs. `./dev bench tokenizer` (tokenizer_area.py) runs this beside the Python
// libraries (tokenizer_peer.py) on the same vocabulary and the same texts:
//
//     tokenizer_bench VOCABULARY TEXTS...
//
// VOCABULARY is a tokenizer.json, or a .tiktoken file of the o200k family. Each of TEXTS holds
// documents with a null byte between them. Prints, as JSON, what it took to load the vocabulary
// and, for each of TEXTS, to encode it on one thread and, where there are several documents, on
// two, and to decode the tokens.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zlib.h>

#include "base/strings.h"
#include "cpu_time.h"
#include "tinker/tokenizer.h"
#include "tokenizer/patterns.h"

namespace tinker {
namespace {

using Tokens = std::vector<std::vector<std::int32_t>>;

// Work is repeated until one of them is reached.
constexpr int kMaxRepetitions = 5;
constexpr double kMaxSeconds = 1.0;

std::string read_file(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(content).str();
}

std::vector<std::string> read_documents(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<std::string> documents;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    documents.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return documents;
}

/// Of this program alone: what getrusage says begins with the memory of the parent.
double peak_megabytes() {
  constexpr std::string_view kName = "VmHWM:";
  const std::string status = read_file("/proc/self/status");
  return std::stod(status.substr(status.find(kName) + kName.size())) * 1024e-6;
}

struct Cost {
  double seconds = 1e9;
  double cpu = 1e9;
};

/// Of the best of a few runs.
Cost measure(int repetitions, const std::function<void()>& work) {
  Cost best;
  double total = 0.0;
  for (int i = 0; i < repetitions && total < kMaxSeconds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const double cpu = cpu_seconds();
    work();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best.seconds = std::min(best.seconds, elapsed.count());
    best.cpu = std::min(best.cpu, cpu_seconds() - cpu);
    total += elapsed.count();
  }
  return best;
}

std::string to_json(const Cost& cost) {
  return base::concat(R"({"seconds": )", cost.seconds, R"(, "cpu": )", cost.cpu, "}");
}

Result<Tokenizer> load(const std::string& path) {
  if (!path.ends_with(".tiktoken")) return Tokenizer::load(path);
  return Tokenizer::from_tiktoken(read_file(path),
                                  {.pattern = std::string(tokenizer::patterns::kO200k)});
}

/// The same for both sides where they give the same tokens.
std::uint64_t checksum(const Tokens& tokens) {
  std::uint64_t crc = 0;
  for (const auto& ids : tokens) {
    crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(ids.data()), 4 * ids.size());
  }
  return crc;
}

std::string bench_text(const Tokenizer& tokenizer, const std::string& path) {
  const auto documents = read_documents(path);
  Tokens tokens;
  std::string decoded;
  const auto encode = [&](unsigned threads) {
    return measure(kMaxRepetitions, [&] {
      tokens = tokenizer.encode_batch(documents, {.add_special_tokens = false}, threads);
    });
  };
  const Cost one = encode(1);
  if (documents.size() == 1) {
    return base::concat(R"({"checksum": )", checksum(tokens), R"(, "encode": )", to_json(one), "}");
  }
  const Cost two = encode(2);
  const Cost decode = measure(kMaxRepetitions, [&] {
    for (const auto& ids : tokens) decoded = tokenizer.decode(ids);
  });
  return base::concat(R"({"checksum": )",
                      checksum(tokens),
                      R"(, "encode": )",
                      to_json(one),
                      R"(, "encode two": )",
                      to_json(two),
                      R"(, "decode": )",
                      to_json(decode),
                      "}");
}

int bench(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) {
    std::fputs("usage: tokenizer_bench VOCABULARY TEXTS...\n", stderr);
    return 2;
  }
  auto tokenizer = Result<Tokenizer>(Error{});
  const double before = peak_megabytes();
  const Cost cost = measure(1, [&] { tokenizer = load(arguments[1]); });
  const double megabytes = peak_megabytes() - before;
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "tokenizer_bench: %s\n", tokenizer.error().to_string().c_str());
    return 1;
  }
  std::string out = base::concat(
      R"({"load": )", to_json(cost), R"(, "megabytes": )", megabytes, R"(, "texts": [)");
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    out += base::concat(i > 2 ? ", " : "", bench_text(*tokenizer, arguments[i]));
  }
  std::printf("%s]}\n", out.c_str());
  return 0;
}

}  // namespace
}  // namespace tinker

int main(int count, char** arguments) {
  return tinker::bench(std::vector<std::string>(arguments, arguments + count));
}
