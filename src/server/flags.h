#pragma once

#include <map>
#include <string>

#include "tinker/result.h"
#include "tinker/types/client_config.h"

namespace tinker::server {

/// What the server tells its clients about itself (PROTOCOL 9.1, 9.2). Every feature is on unless
/// the operator turned it off.
struct Flags {
  ClientConfigResponse config = {};
  ClientDynamicConfigResponse dynamic = {};
};

/// The defaults with `changes` applied: names of flags with "on", "off" or a whole number. Fails
/// with `invalid_argument`, naming the flag and what it takes.
Result<Flags> make_flags(const std::map<std::string, std::string>& changes);

/// The body of `client/config`: also two members that only SDK 0.24 reads, which make it send the
/// forms of the later ones.
Result<std::string> encode_client_config(const Flags& flags);

}  // namespace tinker::server
