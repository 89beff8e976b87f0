#pragma once

#include <memory>

#include "async/task.h"

namespace tinker::server {

class Service;

/// Brings back the runs of an earlier life of the server, from their journals. When this ends, what
/// was accepted then is known again: repeats are answered, polls wait, new requests queue behind.
/// Models are loaded and the work is done after that. A journal that cannot be used costs its own
/// run only: what is asked of it fails, and says why.
async::Task<> restore_runs(std::shared_ptr<Service> service);

}  // namespace tinker::server
