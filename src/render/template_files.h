#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "tinker/chat_format.h"
#include "tinker/renderer.h"
#include "tinker/result.h"

namespace tinker::render {

/// A template, and what it reads besides a conversation.
struct TemplateFiles {
  std::string source = {};
  TemplateOptions options = {};
};

/// What the files of a model at `path` say; `options` goes before them.
Result<TemplateFiles> read_template_files(const std::filesystem::path& path,
                                          const Tokenizer& tokenizer,
                                          TemplateOptions options);

}  // namespace tinker::render
