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
    Row{"pjwt_auth_enabled", &Config::pjwt_auth_enabled},
    Row{"sample_dispatch_bytes_semaphore_size", &Config::sample_dispatch_bytes_semaphore_size},
    Row{"inflight_response_bytes_semaphore_size", &Config::inflight_response_bytes_semaphore_size},
    Row{"parallel_fwdbwd_chunks", &Config::parallel_fwdbwd_chunks},
    Row{"proto_compress_fwdbwd", &Config::proto_compress_fwdbwd},
    Row{"fwdbwd_max_chunk_len", &Config::fwdbwd_max_chunk_len},
    Row{"fwdbwd_max_chunk_bytes_count", &Config::fwdbwd_max_chunk_bytes_count},
    Row{"fwdbwd_dispatch_bytes_semaphore_size", &Config::fwdbwd_dispatch_bytes_semaphore_size},
    Row{"billing_exception_max_pause_duration_sec",
        &Config::billing_exception_max_pause_duration_sec},
    Row{"sample_no_retries", &Config::sample_no_retries},
    Row{"sample_enable_stuck_detection", &Config::sample_enable_stuck_detection},
    Row{"sample_max_concurrent_requests", &Config::sample_max_concurrent_requests},
    Row{"use_pyqwest_transport", &Config::use_pyqwest_transport},
    Row{"create_model_via_load_weights", &Config::create_model_via_load_weights},
    Row{"sample_use_retrieve_futures", &Config::sample_use_retrieve_futures},
    Row{"custom_loss_server_side", &Config::custom_loss_server_side},
    Row{"sample_join_sampling_session", &Config::sample_join_sampling_session},
    Row{"refresh_interval_sec", &Dynamic::refresh_interval_sec},
    Row{"sample_cancel_enabled", &Dynamic::sample_cancel_enabled},
    Row{"sample_cancel_max_batch_size", &Dynamic::sample_cancel_max_batch_size},
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
  const char* const end = value.data() + value.size();
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(value.data(), end, number);
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
