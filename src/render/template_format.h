#pragma once

#include <string_view>

#include "render/formats.h"

namespace tinker::render {

/// The format that a chat template describes.
Format make_template_format(std::string_view source,
                            Tokenizer tokenizer,
                            const TemplateOptions& options);

}  // namespace tinker::render
