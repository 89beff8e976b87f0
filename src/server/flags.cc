#include "server/flags.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "base/strings.h"
#include "wire/json.h"

namespace tinker::server {

namespace {

using Config = ClientConfigResponse;
using Dynamic = ClientDynamicConfigResponse;
using Member =
    std::variant<bool Config::*, std::int64_t Config::*, bool Dynamic::*, std::int64_t Dynamic::*>;

struct Row {
  std::string_view name;
  Member member;
};

constexpr std::array kRows = {
    Row{.name = "pjwt_auth_enabled", .member = &Config::pjwt_auth_enabled},
    Row{.name = "sample_dispatch_bytes_semaphore_size",
        .member = &Config::sample_dispatch_bytes_semaphore_size},
    Row{.name = "inflight_response_bytes_semaphore_size",
        .member = &Config::inflight_response_bytes_semaphore_size},
    Row{.name = "parallel_fwdbwd_chunks", .member = &Config::parallel_fwdbwd_chunks},
    Row{.name = "proto_compress_fwdbwd", .member = &Config::proto_compress_fwdbwd},
    Row{.name = "fwdbwd_max_chunk_len", .member = &Config::fwdbwd_max_chunk_len},
    Row{.name = "fwdbwd_max_chunk_bytes_count", .member = &Config::fwdbwd_max_chunk_bytes_count},
    Row{.name = "fwdbwd_dispatch_bytes_semaphore_size",
        .member = &Config::fwdbwd_dispatch_bytes_semaphore_size},
    Row{.name = "billing_exception_max_pause_duration_sec",
        .member = &Config::billing_exception_max_pause_duration_sec},
    Row{.name = "sample_no_retries", .member = &Config::sample_no_retries},
    Row{.name = "sample_enable_stuck_detection", .member = &Config::sample_enable_stuck_detection},
    Row{.name = "sample_max_concurrent_requests",
        .member = &Config::sample_max_concurrent_requests},
    Row{.name = "use_pyqwest_transport", .member = &Config::use_pyqwest_transport},
    Row{.name = "create_model_via_load_weights", .member = &Config::create_model_via_load_weights},
    Row{.name = "sample_use_retrieve_futures", .member = &Config::sample_use_retrieve_futures},
    Row{.name = "custom_loss_server_side", .member = &Config::custom_loss_server_side},
    Row{.name = "sample_join_sampling_session", .member = &Config::sample_join_sampling_session},
    Row{.name = "refresh_interval_sec", .member = &Dynamic::refresh_interval_sec},
    Row{.name = "sample_cancel_enabled", .member = &Dynamic::sample_cancel_enabled},
    Row{.name = "sample_cancel_max_batch_size", .member = &Dynamic::sample_cancel_max_batch_size},
};

Flags everything_on() {
  Flags out;
  out.config.proto_compress_fwdbwd = true;
  out.config.create_model_via_load_weights = true;
  out.config.sample_use_retrieve_futures = true;
  out.config.custom_loss_server_side = true;
  out.config.sample_join_sampling_session = true;
  out.dynamic.sample_cancel_enabled = true;
  return out;
}

Error wrong_value(std::string_view name, std::string_view expected, std::string_view value) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat("flag ", name, ": expected ", expected, ", found '", value, "'")};
}

Result<void> set(bool& flag, std::string_view name, std::string_view value) {
  if (value == "on" || value == "true") {
    flag = true;
  } else if (value == "off" || value == "false") {
    flag = false;
  } else {
    return wrong_value(name, "on or off", value);
  }
  return {};
}

Result<void> set(std::int64_t& flag, std::string_view name, std::string_view value) {
  const char* const begin = value.data();
  const char* const end = begin + value.size();
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || rest != end || number < 1) {
    return wrong_value(name, "a whole number of at least 1", value);
  }
  flag = number;
  return {};
}

Result<void> set(Flags& flags, const Row& row, std::string_view value) {
  return std::visit(
      [&](auto member) -> Result<void> {
        if constexpr (requires { flags.config.*member; }) {
          return set(flags.config.*member, row.name, value);
        } else {
          return set(flags.dynamic.*member, row.name, value);
        }
      },
      row.member);
}

}  // namespace

Result<Flags> make_flags(const std::map<std::string, std::string>& changes) {
  Flags out = everything_on();
  for (const auto& [name, value] : changes) {
    const auto* row = kRows.begin();
    while (row != kRows.end() && row->name != name) ++row;
    if (row == kRows.end()) {
      std::string known;
      for (const auto& other : kRows) known += base::concat(known.empty() ? "" : ", ", other.name);
      return Error{.code = ErrorCode::invalid_argument,
                   .message = base::concat("flag '", name, "': expected one of ", known)};
    }
    TINKER_TRY(set(out, *row, value));
  }
  return out;
}

Result<std::string> encode_client_config(const Flags& flags) {
  TINKER_TRY(std::string json, wire::encode_json(flags.config));
  json.pop_back();
  return json + R"(,"proto_write_fwdbwd":true,"fwd_via_fwdbwd":true})";
}

}  // namespace tinker::server
