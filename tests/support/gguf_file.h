#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tinker::testing {

/// Writes GGUF files, broken ones too.
class GgufFile {
 public:
  static void put(std::string& out, std::string_view text) {
    put_number<std::uint64_t>(out, text.size());
    out += text;
  }
  template <typename T>
  static void put_number(std::string& out, T number) {
    out.append(reinterpret_cast<const char*>(&number), sizeof(T));
  }

  /// Any value: its type and its bytes.
  void add_raw(std::string_view key, std::uint32_t type, std::string_view bytes) {
    put(metadata_, key);
    put_number(metadata_, type);
    metadata_ += bytes;
    ++values_;
  }
  void add(std::string_view key, std::string_view text) {
    std::string bytes;
    put(bytes, text);
    add_raw(key, 8, bytes);
  }
  // Texts would become booleans otherwise.
  template <std::same_as<bool> Boolean>
  void add(std::string_view key, Boolean value) {
    add_raw(key, 7, std::string(1, value ? '\x01' : '\0'));
  }
  void add(std::string_view key, std::uint32_t number) {
    std::string bytes;
    put_number(bytes, number);
    add_raw(key, 4, bytes);
  }
  void add(std::string_view key, const std::vector<std::string>& texts) {
    std::string bytes = array_head(8, texts.size());
    for (const auto& text : texts) put(bytes, text);
    add_raw(key, 9, bytes);
  }
  void add(std::string_view key, const std::vector<std::int32_t>& numbers) {
    std::string bytes = array_head(5, numbers.size());
    for (const auto number : numbers) put_number(bytes, number);
    add_raw(key, 9, bytes);
  }
  void add(std::string_view key, const std::vector<float>& numbers) {
    std::string bytes = array_head(6, numbers.size());
    for (const auto number : numbers) put_number(bytes, number);
    add_raw(key, 9, bytes);
  }
  static std::string array_head(std::uint32_t type, std::uint64_t count) {
    std::string out;
    put_number(out, type);
    put_number(out, count);
    return out;
  }

  void add_tensor(std::string_view name,
                  const std::vector<std::uint64_t>& shape,
                  std::uint32_t type,
                  std::uint64_t offset) {
    put(directory_, name);
    put_number(directory_, static_cast<std::uint32_t>(shape.size()));
    for (const auto extent : shape) put_number(directory_, extent);
    put_number(directory_, type);
    put_number(directory_, offset);
    ++tensors_;
  }

  [[nodiscard]] std::string bytes(std::string_view data = {}, std::uint32_t version = 3) const {
    std::string out = "GGUF";
    put_number(out, version);
    put_number(out, tensors_);
    put_number(out, values_);
    out += metadata_ + directory_;
    if (!data.empty()) out.resize((out.size() + 31) / 32 * 32);
    return out.append(data);
  }

 private:
  std::string metadata_;
  std::string directory_;
  std::uint64_t values_ = 0;
  std::uint64_t tensors_ = 0;
};

/// A llama of one layer whose weights are 0; its vocabulary is "a", "b" and "ab".
inline std::string tiny_llama_gguf(bool has_vocabulary) {
  GgufFile file;
  file.add("general.architecture", "llama");
  for (const auto& [name, value] : {std::pair("embedding_length", 8U),
                                    std::pair("feed_forward_length", 8U),
                                    std::pair("block_count", 1U),
                                    std::pair("context_length", 77U),
                                    std::pair("attention.head_count", 2U)}) {
    file.add(std::string("llama.") + name, value);
  }
  file.add_raw("llama.attention.layer_norm_rms_epsilon", 6, std::string(4, '\0'));
  if (has_vocabulary) {
    file.add("tokenizer.ggml.model", "gpt2");
    file.add("tokenizer.ggml.pre", "smollm");
    file.add("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "ab"});
    file.add("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  }
  std::string data;
  const auto add = [&](const std::string& name, std::uint64_t cols, std::uint64_t rows) {
    file.add_tensor(name, {cols, rows}, 0, data.size());
    data.append((cols * rows * sizeof(float) + 31) / 32 * 32, '\0');
  };
  add("token_embd.weight", 8, 3);
  add("output_norm.weight", 8, 1);
  for (const auto* const name : {"attn_norm", "ffn_norm"}) {
    add(std::string("blk.0.") + name + ".weight", 8, 1);
  }
  for (const auto* const name :
       {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
    add(std::string("blk.0.") + name + ".weight", 8, 8);
  }
  return file.bytes(data);
}

}  // namespace tinker::testing
