#pragma once

#include <string>
#include <string_view>

namespace tinker::base {

/// Links into the web console (R1.18). They need no request.
std::string console_sessions_url();
std::string console_session_url(std::string_view session_id);
std::string console_training_run_url(std::string_view run_id);
/// `checkpoint_id` as in "weights/0001".
std::string console_checkpoint_url(std::string_view run_id, std::string_view checkpoint_id);
std::string console_playground_url(std::string_view tinker_path);
std::string console_key_url(std::string_view key_id);
std::string console_new_key_url(std::string_view key_name);

}  // namespace tinker::base
