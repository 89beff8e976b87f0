#pragma once

#include <optional>

#include "tinker/future.h"
#include "tinker/rest_client.h"
#include "tinker/secret.h"

/// What can be known of credentials before a client is made.
namespace tinker::auth {

/// The key of `TINKER_API_KEY`, else the default one of the credential file; nothing on any
/// problem. Neither asks a server nor runs `TINKER_CREDENTIAL_CMD`: where that is set, clients may
/// use another credential than this.
[[nodiscard]] std::optional<Secret> get_tinker_token();

/// Whether a client would find a credential. A command counts without being run.
[[nodiscard]] bool tinker_has_credentials();

/// Whether the server can be reached and takes the credential: all that a client does at its start,
/// and one question more. Nothing is repeated and nothing waited for, so that it fails with the
/// first error there is: `connection_failed`, `unauthenticated`, `billing` … Set a limit with
/// `future.get(timeout)` for a server that does not answer; each request has one of 60 s.
// NOLINTBEGIN(modernize-use-nodiscard): futures are so by themselves.
Future<void> check_tinker_accessible();
Future<void> check_tinker_accessible(RestOptions options);
// NOLINTEND(modernize-use-nodiscard)

}  // namespace tinker::auth
