#include "server/model_registry.h"
