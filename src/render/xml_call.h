#pragma once

#include "render/response.h"

namespace tinker::render {

/// "<tool_call>\n<function=f>\n<parameter=p>\nv\n</parameter>\n</function>\n</tool_call>"
ParsedCall parse_xml_call(std::string_view raw);

}  // namespace tinker::render
