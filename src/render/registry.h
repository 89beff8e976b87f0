#pragma once

#include <memory>
#include <string_view>

#include "tinker/chat_format.h"
#include "tinker/renderer.h"
#include "tinker/result.h"

namespace tinker::render {

/// The format of that name; fails where there is none, or where the tokenizer lacks tokens that it
/// needs: then it is of another model.
Result<std::shared_ptr<const ChatFormat>> make_format(std::string_view name,
                                                      Tokenizer tokenizer,
                                                      const RendererOptions& options);

}  // namespace tinker::render
