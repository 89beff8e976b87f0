#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tinker/types/json.h"
#include "tinker/types/optimizer.h"
#include "tinker/types/seed.h"

namespace tinker {

/// What a LoRA adapter trains (PROTOCOL 7.5).
struct LoraConfig {
  std::int64_t rank = 32;         ///< Always sent; the wire knows no default.
  std::optional<Seed> seed = {};  ///< Of the initial weights.
  bool train_unembed = true;
  bool train_mlp = true;
  bool train_attn = true;

  friend bool operator==(const LoraConfig&, const LoraConfig&) = default;
};

/// POST create_model (PROTOCOL 9.9).
struct CreateModelRequest {
  std::string session_id = {};
  std::int64_t model_seq_id = 0;  ///< 0, 1, 2 ... within the session.
  std::string base_model = {};
  std::optional<JsonObject> user_metadata = {};  ///< Use texts: answers cannot carry other values.
  std::optional<LoraConfig> lora_config = {};
  OptimizerConfig optimizer_config = {};

  friend bool operator==(const CreateModelRequest&, const CreateModelRequest&) = default;
};

struct CreateModelResponse {
  std::string model_id = {};

  friend bool operator==(const CreateModelResponse&, const CreateModelResponse&) = default;
};

/// POST get_info (PROTOCOL 9.10).
struct GetInfoRequest {
  std::string model_id = {};

  friend bool operator==(const GetInfoRequest&, const GetInfoRequest&) = default;
};

struct ModelData {
  std::optional<std::string> arch = {};
  std::optional<std::string> model_name = {};
  std::optional<std::string> tokenizer_id = {};

  friend bool operator==(const ModelData&, const ModelData&) = default;
};

struct GetInfoResponse {
  bool has_type = true;  ///< Whether the answer carries its optional type tag.
  ModelData model_data = {};
  std::string model_id = {};
  OptimizerConfig optimizer_config = {};
  std::optional<bool> is_lora = {};
  std::optional<std::int64_t> lora_rank = {};
  std::optional<std::string> model_name = {};

  friend bool operator==(const GetInfoResponse&, const GetInfoResponse&) = default;
};

/// POST unload_model (PROTOCOL 9.11).
struct UnloadModelRequest {
  std::string model_id = {};

  friend bool operator==(const UnloadModelRequest&, const UnloadModelRequest&) = default;
};

struct UnloadModelResponse {
  std::string model_id = {};
  bool has_type = true;  ///< Whether the answer carries its optional type tag.

  friend bool operator==(const UnloadModelResponse&, const UnloadModelResponse&) = default;
};

}  // namespace tinker
