// The seeds of fuzz/server_fuzz.cc: they name rows that exist, and hold what the fuzzer asks of any
// script.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/endpoints.h"
#include "server_script.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that the fuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace tinker::fuzz_seeds_test {
namespace {

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(FUZZ_SEEDS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return out;
}

TEST(FuzzSeeds, NameTheRowsThatTheServerHasAndAllOfThem) {
  std::set<std::string> rows;
  for (const auto& row : server::endpoint_names()) {
    rows.insert(std::string(http::to_string(row.method)) + " " + std::string(row.path));
  }
  std::set<std::string> named;
  for (const std::string& seed : seeds()) {
    std::string_view rest = seed;
    while (!rest.empty()) named.insert(fuzz::parse_line(fuzz::take(rest, '\n'), {}).row);
  }

  EXPECT_EQ(named, rows);
}

TEST(FuzzSeeds, AreAnsweredToTheEnd) {
  for (const std::string& seed : seeds()) {
    EXPECT_EQ(
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(seed.data()), seed.size()), 0);
  }
}

}  // namespace
}  // namespace tinker::fuzz_seeds_test
